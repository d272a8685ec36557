// SPDX-License-Identifier: Apache-2.0
#include "inspector/timeline/time_header.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "inspector/widgets/drawing.h"
#include "inspector/widgets/format.h"

namespace tessera::inspector {
namespace {

constexpr float minimap_height = 30;
constexpr float ruler_height = 24;
constexpr float right_margin = 8;

Ruler ruler_of(const Surface& ui, const ViewState& state, float width) {
  return ruler(state.time, width, text_width(ui.fonts.small, "+00,000.00 ms"));
}

/// Steps of the whole run on the minimap.
class StepStrip {
 public:
  StepStrip(const Surface& ui, const TraceModel& model, const Box& box)
      : ui_(ui),
        model_(model),
        box_(box),
        end_(static_cast<double>(std::max<Time>(model.info().end, 1))) {}

  float x_of(Time t) const {
    const float x = box_.min.x + static_cast<float>(static_cast<double>(t) / end_) * box_.width();
    return std::floor(std::clamp(x, box_.min.x, box_.max.x));
  }

  // Of steps narrower than a few pixels several make a block, so that blocks can be told apart.
  void draw() const {
    const std::int64_t steps = model_.step_count();
    if (steps == 0) return;
    const double apart = static_cast<double>(box_.width()) / static_cast<double>(steps);
    const std::int64_t block = every_nth(apart, ui_.theme.px(4));
    ImDrawList* draw = ImGui::GetWindowDrawList();
    for (std::int64_t step = 0; step < steps; step += block) {
      const std::int64_t last = std::min(step + block, steps) - 1;
      const float x0 = x_of(model_.step_range(static_cast<std::int32_t>(step)).first);
      const float x1 = x_of(model_.step_range(static_cast<std::int32_t>(last)).second) - 1;
      draw->AddRectFilled({x0, box_.min.y}, {std::max(x1, x0 + 1), box_.max.y}, ui_.theme.raised);
    }
  }

  void draw_labels() const {
    const std::int64_t steps = model_.step_count();
    if (steps == 0) return;
    const double apart = static_cast<double>(box_.width()) / static_cast<double>(steps);
    const float pad = ui_.theme.px(6);
    const float widest = text_width(ui_.fonts.small, fmt::format("step {}", steps)) + 2 * pad;
    const std::int64_t every = every_nth(apart, widest);
    const float y = box_.min.y + (box_.height() - ui_.fonts.small->FontSize) / 2;
    float free = box_.min.x;
    for (std::int64_t step = 0; step < steps; step += every) {
      const std::string label = fmt::format("step {}", step);
      const float x = x_of(model_.step_range(static_cast<std::int32_t>(step)).first) + pad;
      const float end = x + text_width(ui_.fonts.small, label) + pad;
      if (x < free || end > box_.max.x) continue;
      draw_text(ui_.fonts.small, {x, y}, ui_.theme.dim, label);
      free = end;
    }
  }

 private:
  const Surface& ui_;
  const TraceModel& model_;
  Box box_;
  double end_;
};

void draw_minimap(const Surface& ui, const TraceModel& model, ViewState& state, const Box& box) {
  ImDrawList* draw = ImGui::GetWindowDrawList();
  const Theme& theme = ui.theme;
  const TimeStretch stretch = time_stretch(box, theme.px(state.gutter), theme.px(right_margin));
  const Box map{{stretch.left, box.min.y + theme.px(4)},
                {stretch.left + stretch.width, box.min.y + theme.px(minimap_height - 6)}};
  draw_text(ui.fonts.small, {box.min.x + theme.px(12), map.min.y + theme.px(3)}, theme.dim, "run");
  draw->AddRectFilled(map.min, map.max, theme.ground);
  const StepStrip strip(ui, model, map);
  strip.draw();
  for (const Problem& problem : model.problems()) {
    if (!problem.time) continue;
    const float x = strip.x_of(*problem.time);
    draw->AddRectFilled({x - 1, map.min.y}, {x + 1, map.max.y}, ui.colours().fail);
  }
  const float v0 = strip.x_of(state.time.from());
  const float v1 = std::max(strip.x_of(state.time.to()), v0 + 2);
  draw->AddRectFilled({v0, map.min.y}, {v1, map.max.y}, with_alpha(theme.accent, 46));
  draw->AddRect({v0, map.min.y}, {v1, map.max.y}, theme.accent);
  strip.draw_labels();  // over the edges of what is in view
  state.place("timeline/minimap", map.min, map.max);
  const ImGuiIO& io = ImGui::GetIO();
  if (!map.contains(io.MouseClickedPos[0]) || !ImGui::IsMouseDown(0)) return;
  const auto centre = static_cast<Time>((io.MousePos.x - map.min.x) / map.width() *
                                        static_cast<double>(model.info().end));
  const Time length = state.time.to() - state.time.from();
  state.time.show(centre - length / 2, centre - length / 2 + length);
}

void draw_ruler_labels(const Surface& ui, ViewState& state, const Box& box) {
  const TimeStretch stretch =
      time_stretch(box, ui.theme.px(state.gutter), ui.theme.px(right_margin));
  const Ruler shown = ruler_of(ui, state, stretch.width);
  const float y = box.min.y + ui.theme.px(5);
  // The base of offsets stands in the gutter, or left of the first tick if it is too long.
  state.fields["ruler/base"] = shown.base;
  float free = box.min.x;
  if (!shown.base.empty()) {
    draw_text(ui.fonts.small, {box.min.x + ui.theme.px(4), y}, ui.theme.text, shown.base);
    free = box.min.x + ui.theme.px(8) + text_width(ui.fonts.small, shown.base);
  }
  for (const Tick& tick : shown.ticks) {
    const float x = std::floor(state.time.x_of(tick.time, stretch.left, stretch.width));
    const float half = text_width(ui.fonts.small, tick.label) / 2;
    if (x - half < free || x + half > box.max.x) continue;
    draw_text(ui.fonts.small, {x - half, y}, ui.theme.dim, tick.label);
    free = x + half + ui.theme.px(4);
  }
}

void draw_step_lines(const Surface& ui, TraceModel& model, const ViewState& state, const Box& box,
                     const TimeStretch& stretch) {
  const std::int32_t steps = model.step_count();
  if (steps == 0) return;
  const std::int32_t first = model.step_at(state.time.from());
  const std::int32_t last = model.step_at(state.time.to());
  const std::int64_t every =
      every_nth(static_cast<double>(stretch.width) / (last - first + 1), ui.theme.px(60));
  const ImU32 colour = with_alpha(ui.theme.accent, 150);
  for (std::int64_t step = (first + every - 1) / every * every; step <= last; step += every) {
    const Time begin = model.step_begin(static_cast<std::int32_t>(step), state.rank);
    const float x = std::floor(state.time.x_of(begin, stretch.left, stretch.width));
    if (x < stretch.left || x > stretch.left + stretch.width) continue;
    for (float y = box.min.y; y < box.max.y; y += ui.theme.px(6)) {
      ImGui::GetWindowDrawList()->AddRectFilled(
          {x, y}, {x + 1, std::min(y + ui.theme.px(3), box.max.y)}, colour);
    }
  }
}

}  // namespace

float time_header_height(const Surface& ui) { return ui.theme.px(minimap_height + ruler_height); }

void draw_time_header(Surface& ui, TraceModel& model, ViewState& state, const Box& box) {
  const float map_end = box.min.y + ui.theme.px(minimap_height);
  ImGui::GetWindowDrawList()->AddRectFilled(
      box.min, {box.max.x, box.min.y + time_header_height(ui)}, ui.theme.panel);
  draw_minimap(ui, model, state, {box.min, {box.max.x, map_end}});
  draw_ruler_labels(ui, state,
                    {{box.min.x, map_end}, {box.max.x, map_end + ui.theme.px(ruler_height)}});
}

void draw_time_grid(const Surface& ui, TraceModel& model, const ViewState& state, const Box& box) {
  const TimeStretch stretch =
      time_stretch(box, ui.theme.px(state.gutter), ui.theme.px(right_margin));
  ImDrawList* draw = ImGui::GetWindowDrawList();
  const float right = stretch.left + stretch.width;
  const auto x_of = [&](Time time) {
    return std::clamp(std::floor(state.time.x_of(time, stretch.left, stretch.width)), stretch.left,
                      right);
  };
  const float begin = x_of(0), end = x_of(model.info().end);
  if (begin > stretch.left) {
    draw->AddRectFilled({stretch.left, box.min.y}, {begin, box.max.y}, ui.theme.ground);
  }
  if (end < right) draw->AddRectFilled({end, box.min.y}, {right, box.max.y}, ui.theme.ground);
  for (const Tick& tick : ruler_of(ui, state, stretch.width).ticks) {
    const float x = x_of(tick.time);
    draw->AddRectFilled({x, box.min.y}, {x + 1, box.max.y}, ui.theme.line);
  }
  draw_step_lines(ui, model, state, box, stretch);
}

void draw_measured(const Surface& ui, ViewState& state, const Box& box) {
  if (!state.measured) return;
  const TimeStretch stretch =
      time_stretch(box, ui.theme.px(state.gutter), ui.theme.px(right_margin));
  const auto [begin, end] = *state.measured;
  const float right = stretch.left + stretch.width;
  const auto x_of = [&](Time time) {
    return std::clamp(std::floor(state.time.x_of(time, stretch.left, stretch.width)), stretch.left,
                      right);
  };
  const float x0 = x_of(begin), x1 = std::max(x_of(end), x0 + 1);
  ImDrawList* draw = ImGui::GetWindowDrawList();
  draw->AddRectFilled({x0, box.min.y}, {x1, box.max.y}, with_alpha(ui.theme.accent, 36));
  const std::string words = format_time(end - begin);
  state.fields["measured"] = words;
  const float pad = ui.theme.px(4);
  const float wide = text_width(ui.fonts.strong, words) + 2 * pad;
  const float x =
      std::clamp((x0 + x1 - wide) / 2, stretch.left, std::max(stretch.left, right - wide));
  const float y = box.min.y + ui.theme.px(minimap_height);
  draw->AddRectFilled({x, y}, {x + wide, y + ui.theme.px(ruler_height)}, ui.theme.ground, pad);
  draw_text(ui.fonts.strong, {x + pad, y + pad}, ui.theme.accent, words);
}

void draw_problem_marks(const Surface& ui, const TraceModel& model, const ViewState& state,
                        const Box& box) {
  const TimeStretch stretch =
      time_stretch(box, ui.theme.px(state.gutter), ui.theme.px(right_margin));
  for (const Problem& problem : model.problems()) {
    if (!problem.time || *problem.time < state.time.from() || *problem.time > state.time.to()) {
      continue;
    }
    const float x = std::floor(state.time.x_of(*problem.time, stretch.left, stretch.width));
    const float r = ui.theme.px(5);
    ImDrawList* draw = ImGui::GetWindowDrawList();
    draw->AddRectFilled({x - 1, box.min.y}, {x + 1, box.max.y}, ui.colours().fail);
    draw->AddTriangleFilled({x - r, box.min.y - r}, {x + r, box.min.y - r}, {x, box.min.y + r},
                            ui.colours().fail);
    const Box near{{x - r, box.min.y - r}, {x + r, box.max.y}};
    if (near.contains(ImGui::GetIO().MousePos) && ImGui::IsWindowHovered()) {
      ImGui::SetTooltip("%s", problem.text.c_str());
    }
  }
}

}  // namespace tessera::inspector
