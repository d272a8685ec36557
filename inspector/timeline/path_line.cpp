// SPDX-License-Identifier: Apache-2.0
#include "inspector/timeline/path_line.h"

#include <algorithm>
#include <cmath>

#include "inspector/widgets/drawing.h"

namespace tessera::inspector {
namespace {

// With an edge, so that it shows on bars of every colour.
void draw_stroke(const Surface& ui, ImVec2 from, ImVec2 to) {
  ImDrawList* draw = ImGui::GetWindowDrawList();
  const float half = ui.theme.px(1), edge = half + ui.theme.px(1);
  const ImVec2 low{std::min(from.x, to.x), std::min(from.y, to.y)};
  const ImVec2 high{std::max(from.x, to.x), std::max(from.y, to.y)};
  draw->AddRectFilled({low.x - edge, low.y - edge}, {high.x + edge, high.y + edge}, ui.theme.panel);
  draw->AddRectFilled({low.x - half, low.y - half}, {high.x + half, high.y + half}, ui.theme.text);
}

}  // namespace

bool draw_path_line(const Surface& ui, TraceModel& model, const ViewState& state, const Box& box,
                    const PathHeight& height_of) {
  const Time middle = state.time.from() + (state.time.to() - state.time.from()) / 2;
  const Result<analysis::CriticalPath>& path = model.critical_path(model.step_at(middle));
  if (!path.ok() || path->segments.empty()) return false;
  const TimeStretch stretch = time_stretch(box, ui.theme.px(state.gutter), ui.theme.px(8));
  const auto x_of = [&](Time time) {
    return std::clamp(std::floor(state.time.x_of(time, stretch.left, stretch.width)), stretch.left,
                      stretch.left + stretch.width);
  };
  std::optional<ImVec2> pen;
  bool drawn = false;
  for (const analysis::PathSegment& segment : path->segments) {
    if (segment.to < state.time.from() || segment.from > state.time.to()) continue;
    const auto height = height_of(segment.rank, segment.stream);
    const float x0 = x_of(segment.from), x1 = x_of(segment.to);
    // Below a pixel the line stays where it is.
    if (!height || (pen && x1 - pen->x < 1)) continue;
    const float y = std::clamp(*height, box.min.y, box.max.y);
    const float from = pen ? std::max(x0, pen->x) : x0;
    if (pen && std::abs(pen->y - y) >= 1) draw_stroke(ui, {from, pen->y}, {from, y});
    if (segment.part == analysis::PathPart::work) {
      draw_stroke(ui, {from, y}, {x1, y});
    } else {
      draw_dashes(from, x1, y, ui.theme.text, ui.theme.px(4));
    }
    pen = ImVec2{x1, y};
    drawn = true;
  }
  return drawn;
}

}  // namespace tessera::inspector
