// SPDX-License-Identifier: Apache-2.0
#include "inspector/app/app.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "inspector/app/details_panel.h"
#include "inspector/widgets/drawing.h"
#include "inspector/widgets/format.h"
#include "inspector/memory/memory_panel.h"

namespace tessera::inspector {
namespace {

constexpr float top_height = 46;
constexpr float details_width = 340;
constexpr float memory_height = 286;
constexpr float gap_px = 6;

}  // namespace

Result<std::unique_ptr<App>> App::open(const InspectOptions& options) {
  TESSERA_ASSIGN(auto model, TraceModel::open(options.path));
  if (options.time && options.time->second <= options.time->first) {
    return Status(Code::invalid_argument,
                  fmt::format("the time range {} to {} ns is empty: give begin < end",
                              options.time->first, options.time->second));
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
  state_.panel = options.panel;
  state_.rank = options.rank ? *options.rank : model_->slowest_recorded();
  state_.step = std::max(0, model_->last_step());
  state_.metric = telling_metric(model_->steps());
  const auto [begin, end] = options.time ? *options.time : first_view();
  state_.time.show(begin, end);
  const bool no_spans = model_->run().recorded_ranks.empty();
  if (options.panel == Panel::overview || no_spans) state_.tab = Tab::overview;
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
  draw_text(ui.fonts.title, {x, y}, theme.text, run.name);
  x += text_width(ui.fonts.title, run.name) + theme.px(18);
  const std::string facts =
      fmt::format("{}  ·  {}  ·  {}  ·  {}  ·  {}", run.scheme, format_many(run.ranks, "rank"),
                  run.cluster, format_many(model_->steps().steps, "step"), run.backend);
  draw_text(ui.fonts.body, {x, y + theme.px(2)}, theme.dim, facts);
  const float right = box.max.x - theme.px(14);
  ImGui::SetCursorScreenPos({right - theme.px(288), box.min.y + theme.px(9)});
  const bool timeline = state_.tab == Tab::timeline;
  if (tab_button(ui, state_, "Overview", "tab/overview", !timeline)) state_.tab = Tab::overview;
  ImGui::SameLine(0, theme.px(4));
  if (tab_button(ui, state_, "Timeline", "tab/timeline", timeline)) state_.tab = Tab::timeline;
  ImGui::SameLine(0, theme.px(16));
  const bool dark = theme.kind == ThemeKind::dark;
  if (tab_button(ui, state_, dark ? "Light" : "Dark", "theme", false)) {
    ui.wish.kind = dark ? ThemeKind::light : ThemeKind::dark;
  }
  ImGui::SameLine(0, theme.px(4));
  if (tab_button(ui, state_, "?", "help", state_.show_help)) state_.show_help = !state_.show_help;
}

void App::draw_cursor(const Surface& ui, const Box& box) {
  if (!state_.cursor) return;
  const float left = box.min.x + ui.theme.px(gutter_px);
  const float width = box.max.x - left - ui.theme.px(8);
  const float x = std::floor(state_.time.x_of(*state_.cursor, left, width));
  ImGui::GetWindowDrawList()->AddRectFilled({x, box.min.y}, {x + 1, box.max.y},
                                            with_alpha(ui.theme.accent, 140));
}

void App::draw_timeline_tab(Surface& ui, const Box& box) {
  const float gap = ui.theme.px(gap_px);
  const float side = box.max.x - ui.theme.px(details_width);
  const bool only_memory = state_.panel == Panel::memory;
  const bool only_timeline = state_.panel == Panel::timeline;
  const float memory_top =
      only_memory     ? box.min.y
      : only_timeline ? box.max.y
                      : box.max.y - std::min(ui.theme.px(memory_height), 0.42F * box.height());
  const Box memory{{box.min.x, memory_top}, {side - gap, box.max.y}};
  const Box timeline{box.min, {side - gap, only_timeline ? box.max.y : memory_top - gap}};
  const Box details{{side, box.min.y}, {box.max.x, only_timeline ? box.max.y : memory_top - gap}};
  if (!only_memory) {
    timeline_.draw(ui, *model_, state_, timeline);
  }
  if (!only_timeline) {
    draw_memory_panel(ui, *model_, state_, memory, {{side, memory_top}, box.max});
  }
  draw_cursor(ui, {box.min, {side - gap, box.max.y}});
  if (!only_memory) draw_details(ui, *model_, state_, details);
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
      {"1  2", "overview, timeline"},
      {"T", "dark or light"},
      {"Esc", "clear the selection"},
  };
  const ImVec2 screen = ImGui::GetIO().DisplaySize;
  ImGui::SetNextWindowPos({screen.x / 2, screen.y / 2}, ImGuiCond_Always, {0.5F, 0.5F});
  ImGui::Begin("Keys", &state_.show_help,
               ImGuiWindowFlags_NoResize | ImGuiWindowFlags_AlwaysAutoResize |
                   ImGuiWindowFlags_NoCollapse | ImGuiWindowFlags_NoMove);
  for (const auto& [key, meaning] : keys) {
    ImGui::PushFont(ui.fonts.strong);
    ImGui::TextUnformatted(key);
    ImGui::PopFont();
    ImGui::SameLine(ui.theme.px(80));
    ImGui::TextUnformatted(meaning);
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
  if (state_.tab == Tab::timeline) {
    draw_timeline_tab(ui, body);
  } else {
    overview_.draw(ui, *model_, state_, body);
  }
  ImGui::End();
  ImGui::PopStyleColor();
  draw_help(ui);
  return handle_keys(ui);
}

}  // namespace tessera::inspector
