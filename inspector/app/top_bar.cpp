// SPDX-License-Identifier: Apache-2.0
#include "inspector/app/top_bar.h"

#include <fmt/format.h>

#include <algorithm>

#include "inspector/app/panels.h"
#include "inspector/app/second_panel.h"
#include "inspector/widgets/drawing.h"
#include "inspector/widgets/format.h"

namespace tessera::inspector {
namespace {

constexpr float between_tabs = 4;
constexpr float before_buttons = 16;

const char* theme_label(const Theme& theme) {
  return theme.kind == ThemeKind::dark ? "Light" : "Dark";
}

float button_width(const std::string& label) {
  return ImGui::CalcTextSize(label.c_str()).x + 2 * ImGui::GetStyle().FramePadding.x;
}

float buttons_width(const Surface& ui) {
  return ui.theme.px(before_buttons) + button_width("Split") + button_width("?") +
         button_width(theme_label(ui.theme)) + 2 * ui.theme.px(between_tabs);
}

// All tabs in a row.
float tabs_width(const Surface& ui) {
  float width = 0;
  std::string_view last;
  for (const PanelRow& row : panel_rows()) {
    if (row.tab == last) continue;
    last = row.tab;
    width += button_width(row.tab) + ui.theme.px(between_tabs);
  }
  return width - ui.theme.px(between_tabs);
}

// The tabs as one button, which opens a list of them.
std::string folded_label(const ViewState& state) {
  return fmt::format("{} ▼", find_panel(state.panel)->tab);
}

// What is known of the run, in a line; imported ones have no scheme and no cluster. What does not
// fit is left out as a whole.
std::string facts_of(const Surface& ui, const TraceModel& model, float room) {
  const TraceRun& run = model.run();
  std::string facts;
  for (const std::string& fact : {run.scheme, format_many(run.ranks, "rank"), run.cluster,
                                  format_many(model.step_count(), "step"), run.backend}) {
    if (fact.empty()) continue;
    const std::string longer = facts + (facts.empty() ? "" : "  ·  ") + fact;
    if (text_width(ui.fonts.body, longer) > room) break;
    facts = longer;
  }
  return facts;
}

// With Ctrl it is about the second panel.
void open_tab(ViewState& state, const PanelRow& row) {
  if (ImGui::GetIO().KeyCtrl) {
    SecondPanel::show(state, row.name);
  } else if (row.tab != std::string_view(find_panel(state.panel)->tab)) {
    state.panel = row.name;
  }
}

// A tab for each title; it looks pressed for all panels of that title.
void draw_tabs(Surface& ui, ViewState& state) {
  const std::string_view shown = find_panel(state.panel)->tab;
  std::string_view last;
  for (const PanelRow& row : panel_rows()) {
    if (row.tab == last) continue;
    if (!last.empty()) ImGui::SameLine(0, ui.theme.px(between_tabs));
    last = row.tab;
    const bool on = row.tab == shown;
    if (tab_button(ui, state, row.tab, fmt::format("tab/{}", row.name), on)) open_tab(state, row);
  }
}

void draw_folded_tabs(Surface& ui, ViewState& state) {
  if (tab_button(ui, state, (folded_label(state) + "###tabs").c_str(), "tabs", true)) {
    ImGui::OpenPopup("tabs");
  }
  if (!ImGui::BeginPopup("tabs")) return;
  const std::string_view shown = find_panel(state.panel)->tab;
  std::string_view last;
  for (const PanelRow& row : panel_rows()) {
    if (row.tab == last) continue;
    last = row.tab;
    if (ImGui::MenuItem(row.tab, std::string(1, row.key).c_str(), row.tab == shown))
      open_tab(state, row);
    state.place(fmt::format("tab/{}", row.name), ImGui::GetItemRectMin(), ImGui::GetItemRectMax());
  }
  ImGui::EndPopup();
}

}  // namespace

void draw_top_bar(Surface& ui, const TraceModel& model, ViewState& state, const Box& box,
                  bool two_panels, const std::function<float(float, float)>& draw_live) {
  const Theme& theme = ui.theme;
  const float y = box.min.y + theme.px(13), pad = theme.px(14);
  float x = box.min.x + pad;
  // Tabs come first where there is little room; where they have none, a list of them does.
  const float buttons = buttons_width(ui);
  const bool folded = tabs_width(ui) + buttons + 2 * theme.px(8) > box.width();
  const float wide = buttons + (folded ? button_width(folded_label(state)) : tabs_width(ui));
  const float tabs = std::max(box.min.x + theme.px(8), box.max.x - pad - wide);
  const float live = draw_live(tabs, box.min.y + theme.px(9));
  // The name comes first: it says of how many ranks the run is.
  ImGui::PushFont(ui.fonts.title);
  const std::string title =
      fitted_middle(model.run().name, std::max(live - theme.px(18) - x, 1.0F));
  ImGui::PopFont();
  draw_text(ui.fonts.title, {x, y}, theme.text, title);
  x += text_width(ui.fonts.title, title) + theme.px(18);
  draw_text(ui.fonts.body, {x, y + theme.px(2)}, theme.dim,
            facts_of(ui, model, live - theme.px(8) - x));
  ImGui::SetCursorScreenPos({tabs, box.min.y + theme.px(9)});
  folded ? draw_folded_tabs(ui, state) : draw_tabs(ui, state);
  ImGui::SameLine(0, theme.px(before_buttons));
  if (tab_button(ui, state, "Split", "split", two_panels)) SecondPanel::toggle(state);
  ImGui::SameLine(0, theme.px(between_tabs));
  const bool dark = theme.kind == ThemeKind::dark;
  if (tab_button(ui, state, theme_label(theme), "theme", false)) {
    ui.wish.kind = dark ? ThemeKind::light : ThemeKind::dark;
  }
  ImGui::SameLine(0, theme.px(between_tabs));
  if (tab_button(ui, state, "?", "help", state.show_help)) state.show_help = !state.show_help;
}

}  // namespace tessera::inspector
