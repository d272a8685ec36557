// SPDX-License-Identifier: Apache-2.0
#include "inspector/app/app.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "inspector/app/panels.h"
#include "inspector/widgets/drawing.h"
#include "inspector/widgets/format.h"

namespace tessera::inspector {
namespace {

constexpr float top_height = 46;
// What the tabs and buttons take of the top bar, at most.
constexpr float tabs_width = 288;
constexpr float gap_px = 6;

}  // namespace

Result<std::unique_ptr<App>> App::open(const InspectOptions& options) {
  TESSERA_ASSIGN(auto model, TraceModel::open(options.path));
  if (options.time && options.time->second <= options.time->first) {
    return Status(Code::invalid_argument,
                  fmt::format("the time range {} to {} ns is empty: give begin < end",
                              options.time->first, options.time->second));
  }
  if (find_panel(options.panel) == nullptr) {
    return Status(Code::invalid_argument,
                  fmt::format("there is no panel \"{}\": give {}", options.panel,
                              fmt::join(panel_names(), ", ")));
  }
  if (options.rank && !model->recorded(*options.rank)) {
    return Status(Code::invalid_argument,
                  fmt::format("rank {} has no spans in {}: {}", *options.rank, options.path,
                              model->run().recorded_ranks.empty()
                                  ? "no rank was recorded"
                                  : fmt::format("recorded are {} ranks from {} to {}",
                                                model->run().recorded_ranks.size(),
                                                model->run().recorded_ranks.front(),
                                                model->run().recorded_ranks.back())));
  }
  return std::unique_ptr<App>(new App(std::move(model), options));
}

App::App(std::unique_ptr<TraceModel> model, const InspectOptions& options)
    : model_(std::move(model)), state_{.time = TimeView(0, 1, model_->info().end)} {
  state_.rank = options.rank ? *options.rank : model_->slowest_recorded();
  state_.step = std::max(0, model_->last_step());
  state_.metric = analysis::telling_metric(model_->steps());
  const auto [begin, end] = options.time ? *options.time : first_view();
  state_.time.show(begin, end);
  const bool no_spans = model_->run().recorded_ranks.empty();
  const PanelRow& wanted = *find_panel(options.panel);
  state_.panel = wanted.needs_spans && no_spans ? panel_rows().front().name : wanted.name;
  if (!no_spans) select_a_prefetch();
}

// The turn from forward to backward of the last step: few enough bars to read their labels, and
// where memory peaks. Without backward passes the whole step.
std::pair<Time, Time> App::first_view() {
  constexpr std::size_t before = 3, after = 18;  // bars of compute
  const auto step = model_->step_range(model_->last_step());
  for (const LaneData& lane : model_->rank(state_.rank).lanes) {
    if (model_->stream(lane.spans.stream).role != StreamRole::compute) continue;
    const SpanPyramid& spans = *lane.pyramid;
    for (std::size_t i = spans.first_ending_after(step.first); i < spans.size(); ++i) {
      const storage::OpRow& op = model_->op(lane.spans.op[i]);
      // Ranks drift: the step before may still be under way here.
      if (op.step != model_->last_step() || op.phase != Phase::backward) continue;
      return {spans.begin(i - std::min(i, before)),
              spans.end(std::min(i + after, spans.size() - 1))};
    }
  }
  return step;
}

// Something to look at from the start: a prefetched all_gather in the middle of the range.
void App::select_a_prefetch() {
  const Time middle = state_.time.from() + (state_.time.to() - state_.time.from()) / 2;
  for (const LaneData& lane : model_->rank(state_.rank).lanes) {
    for (std::size_t i = lane.pyramid->first_ending_after(middle); i < lane.pyramid->size(); ++i) {
      const storage::OpRow& op = model_->op(lane.spans.op[i]);
      if (op.reason != Reason::backward_prefetch || op.kind != OpKind::all_gather) continue;
      if (lane.spans.begin[i] < state_.time.to()) {
        state_.selection = SpanRef{state_.rank, lane.spans.stream, i};
      }
      return;
    }
  }
}

void App::draw_top_bar(Surface& ui, const Box& box) {
  const Theme& theme = ui.theme;
  const TraceRun& run = model_->run();
  const float y = box.min.y + theme.px(13);
  float x = box.min.x + theme.px(14);
  const float tabs = std::max(box.min.x, box.max.x - theme.px(14 + tabs_width));
  ImGui::GetWindowDrawList()->PushClipRect(box.min, {tabs - theme.px(8), box.max.y}, true);
  draw_text(ui.fonts.title, {x, y}, theme.text, run.name);
  x += text_width(ui.fonts.title, run.name) + theme.px(18);
  const std::string facts =
      fmt::format("{}  ·  {}  ·  {}  ·  {}  ·  {}", run.scheme, format_many(run.ranks, "rank"),
                  run.cluster, format_many(model_->steps().steps, "step"), run.backend);
  draw_text(ui.fonts.body, {x, y + theme.px(2)}, theme.dim, facts);
  ImGui::GetWindowDrawList()->PopClipRect();
  ImGui::SetCursorScreenPos({tabs, box.min.y + theme.px(9)});
  draw_tabs(ui);
  ImGui::SameLine(0, theme.px(16));
  const bool dark = theme.kind == ThemeKind::dark;
  if (tab_button(ui, state_, dark ? "Light" : "Dark", "theme", false)) {
    ui.wish.kind = dark ? ThemeKind::light : ThemeKind::dark;
  }
  ImGui::SameLine(0, theme.px(4));
  if (tab_button(ui, state_, "?", "help", state_.show_help)) state_.show_help = !state_.show_help;
}

// A tab for each title; it looks pressed for all panels of that title.
void App::draw_tabs(Surface& ui) {
  const std::string_view shown = find_panel(state_.panel)->tab;
  std::string_view last;
  for (const PanelRow& row : panel_rows()) {
    if (row.tab == last) continue;
    if (!last.empty()) ImGui::SameLine(0, ui.theme.px(4));
    last = row.tab;
    const bool on = row.tab == shown;
    if (tab_button(ui, state_, row.tab, fmt::format("tab/{}", row.name), on) && !on) {
      state_.panel = row.name;
    }
  }
}

Panel& App::shown() {
  std::unique_ptr<Panel>& panel = panels_[state_.panel];
  if (panel == nullptr) panel = find_panel(state_.panel)->make();
  return *panel;
}

void App::draw_help(const Surface& ui) {
  if (!state_.show_help) return;
  static constexpr const char* keys[][2] = {
      {"W  S", "zoom in, out (wheel: at the cursor)"},
      {"A  D", "pan left, right (or drag); Shift: faster"},
      {"↑  ↓", "open the rank above, below"},
      {"←  →", "select the span before, after"},
      {"F", "frame the selection, again: the step"},
      {"Home", "the whole run"},
      {"T", "dark or light"},
      {"Esc", "clear the selection"},
  };
  const ImVec2 screen = ImGui::GetIO().DisplaySize;
  ImGui::SetNextWindowPos({screen.x / 2, screen.y / 2}, ImGuiCond_Always, {0.5F, 0.5F});
  ImGui::Begin("Keys", &state_.show_help,
               ImGuiWindowFlags_NoResize | ImGuiWindowFlags_AlwaysAutoResize |
                   ImGuiWindowFlags_NoCollapse | ImGuiWindowFlags_NoMove);
  const auto line = [&](const char* key, const char* meaning) {
    ImGui::PushFont(ui.fonts.strong);
    ImGui::TextUnformatted(key);
    ImGui::PopFont();
    ImGui::SameLine(ui.theme.px(80));
    ImGui::TextUnformatted(meaning);
  };
  for (const auto& [key, meaning] : keys) line(key, meaning);
  for (const PanelRow& row : panel_rows()) {
    if (row.key != 0) line(std::string(1, row.key).c_str(), row.tab);
  }
  ImGui::End();
}

bool App::draw(Surface& ui) {
  state_.hovered.reset();
  state_.cursor.reset();
  const ImVec2 screen = ImGui::GetIO().DisplaySize;
  ImGui::SetNextWindowPos({0, 0});
  ImGui::SetNextWindowSize(screen);
  ImGui::PushStyleVar(ImGuiStyleVar_WindowPadding, ImVec2(0, 0));
  ImGui::PushStyleColor(ImGuiCol_WindowBg, ui.theme.ground);
  ImGui::Begin("inspector", nullptr,
               ImGuiWindowFlags_NoDecoration | ImGuiWindowFlags_NoMove |
                   ImGuiWindowFlags_NoSavedSettings | ImGuiWindowFlags_NoBringToFrontOnFocus |
                   ImGuiWindowFlags_NoScrollWithMouse);
  ImGui::PopStyleVar();
  const float top = ui.theme.px(top_height);
  const float gap = ui.theme.px(gap_px);
  draw_top_bar(ui, {{0, 0}, {screen.x, top}});
  const Box body{{gap, top}, {screen.x - gap, screen.y - gap}};
  shown().draw(ui, *model_, state_, body);
  ImGui::End();
  ImGui::PopStyleColor();
  draw_help(ui);
  return handle_keys(ui);
}

}  // namespace tessera::inspector
