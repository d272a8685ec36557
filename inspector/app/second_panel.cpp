// SPDX-License-Identifier: Apache-2.0
#include "inspector/app/second_panel.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "inspector/app/panels.h"
#include "inspector/widgets/drawing.h"

namespace tessera::inspector {
namespace {

constexpr float head_px = 30, between_px = 6;
constexpr float least_width = 320, least_height = 170;  // of each panel
constexpr float second_least = 0.15F, second_most = 0.85F;
constexpr float buttons_gap = 4, choice_width = 170;

}  // namespace

SecondPanel::Places SecondPanel::places(const Surface& ui, const ViewState& state,
                                        const Box& body) const {
  Places places{.first = body, .head = {}, .second = {}, .both = false};
  const Layout& layout = state.layout;
  const bool known = find_panel(layout.second) != nullptr && layout.second != state.panel;
  if (!layout.split || !known) return places;
  const float gap = ui.theme.px(between_px), head = ui.theme.px(head_px);
  const float least = ui.theme.px(layout.below ? least_height : least_width);
  const float whole = (layout.below ? body.height() : body.width()) - gap;
  if (whole < 2 * least || body.width() < ui.theme.px(least_width)) return places;
  if (!layout.below && body.height() < ui.theme.px(least_height)) return places;
  const float second = std::clamp(std::floor(layout.share * whole), least, whole - least);
  places.both = true;
  if (layout.below) {
    const float y = body.max.y - second;
    places.first.max.y = y - gap;
    places.head = {{body.min.x, y}, {body.max.x, y + head}};
    places.second = {{body.min.x, y + head}, body.max};
  } else {
    const float x = body.max.x - second;
    places.first.max.x = x - gap;
    places.head = {{x, body.min.y}, {body.max.x, body.min.y + head}};
    places.second = {{x, body.min.y + head}, body.max};
  }
  return places;
}

void SecondPanel::draw_head(Surface& ui, ViewState& state, const Box& body, const Places& places) {
  const Theme& theme = ui.theme;
  const Box& head = places.head;
  const char* const turn = state.layout.below ? "Beside" : "Below";
  const auto wide = [](const char* label) {
    return ImGui::CalcTextSize(label).x + 2 * ImGui::GetStyle().FramePadding.x;
  };
  const float gap = theme.px(buttons_gap);
  const float y = head.min.y + theme.px(1);
  float x = head.max.x;
  bool ends = false, turns = false, exchanges = false;
  const auto button = [&](const char* label, const char* name) {
    if (x - wide(label) - gap < head.min.x + theme.px(choice_width)) return false;
    x -= wide(label);
    ImGui::SetCursorScreenPos({x, y});
    x -= gap;
    return tab_button(ui, state, label, name, false);
  };
  ends = button("×", "second/end");
  turns = button(turn, "second/turn");
  exchanges = button("Exchange", "second/exchange");
  const PanelRow& shown = *find_panel(state.layout.second);
  state.fields["second"] = shown.title;
  ImGui::SetCursorScreenPos({head.min.x, y});
  ImGui::SetNextItemWidth(std::min(theme.px(choice_width), x - head.min.x));
  if (ImGui::BeginCombo("##second", shown.title)) {
    for (const PanelRow& row : panel_rows()) {
      if (ImGui::Selectable(row.title, row.name == state.layout.second)) show(state, row.name);
      state.place(std::string("second/") + row.name, ImGui::GetItemRectMin(),
                  ImGui::GetItemRectMax());
    }
    ImGui::EndCombo();
  }
  state.place("second", ImGui::GetItemRectMin(), ImGui::GetItemRectMax());
  drag_edge(ui, state, body, places);
  if (ends) state.layout.split = false;
  if (turns) state.layout.below = !state.layout.below;
  if (exchanges) exchange(state);
}

// The edge between the panels: a drag moves it, a double click makes halves of them.
void SecondPanel::drag_edge(const Surface& ui, ViewState& state, const Box& body,
                            const Places& places) {
  const bool below = state.layout.below;
  const Box edge = below ? Box{{body.min.x, places.first.max.y}, {body.max.x, places.head.min.y}}
                         : Box{{places.first.max.x, body.min.y}, {places.head.min.x, body.max.y}};
  state.place("edge/second", edge.min, edge.max);
  const ImGuiIO& io = ImGui::GetIO();
  const bool over = edge.contains(io.MousePos) && ImGui::IsWindowHovered();
  if (over || dragged_) {
    ImGui::SetMouseCursor(below ? ImGuiMouseCursor_ResizeNS : ImGuiMouseCursor_ResizeEW);
  }
  if (ImGui::IsMouseClicked(0)) dragged_ = over;
  if (!ImGui::IsMouseDown(0)) dragged_ = false;
  if (dragged_ && ImGui::IsMouseDragging(0, 2)) {
    const float gap = ui.theme.px(between_px);
    const float rest = below ? body.max.y - io.MousePos.y : body.max.x - io.MousePos.x;
    const float whole = (below ? body.height() : body.width()) - gap;
    state.layout.share = std::clamp(rest / whole, second_least, second_most);
  }
  if (over && ImGui::IsMouseDoubleClicked(0)) state.layout.share = 0.5F;
}

void SecondPanel::show(ViewState& state, const std::string& name) {
  if (state.panel == name && state.layout.split && !state.layout.second.empty()) {
    return exchange(state);
  }
  if (state.panel == name) return;
  state.layout.second = name;
  state.layout.split = true;
}

void SecondPanel::exchange(ViewState& state) {
  if (!state.layout.split || find_panel(state.layout.second) == nullptr) return;
  std::swap(state.panel, state.layout.second);
}

void SecondPanel::settle(ViewState& state, const std::string& first_before) {
  const bool twice = state.layout.split && state.panel == state.layout.second;
  if (twice && first_before != state.panel) state.panel = first_before;
}

void SecondPanel::toggle(ViewState& state) {
  Layout& layout = state.layout;
  if (layout.split && layout.second != state.panel) {
    layout.split = false;
    return;
  }
  if (find_panel(layout.second) == nullptr || layout.second == state.panel) {
    layout.second = state.panel == "holders" ? "all" : "holders";
  }
  layout.split = true;
}

}  // namespace tessera::inspector
