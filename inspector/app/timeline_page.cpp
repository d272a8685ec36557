// SPDX-License-Identifier: Apache-2.0
#include "inspector/app/timeline_page.h"

#include <algorithm>
#include <cmath>

#include "inspector/details/details_panel.h"
#include "inspector/memory/memory_panel.h"
#include "inspector/timeline/time_header.h"

namespace tessera::inspector {
namespace {

constexpr float details_width = 340;
constexpr float memory_height = 286;
constexpr float parts_gap = 6;  // between the parts of a page

// The time under the mouse, over everything that shares the axis.
void draw_cursor(const Surface& ui, const ViewState& state, const Box& box) {
  if (!state.cursor) return;
  const TimeStretch stretch = time_stretch(box, ui.theme.px(gutter_px), ui.theme.px(8));
  const float left = stretch.left, width = stretch.width;
  const float x = std::floor(state.time.x_of(*state.cursor, left, width));
  ImGui::GetWindowDrawList()->AddRectFilled({x, box.min.y}, {x + 1, box.max.y},
                                            with_alpha(ui.theme.accent, 140));
}

}  // namespace

void TimelinePage::draw(Surface& ui, TraceModel& model, ViewState& state, const Box& box) {
  const float gap = ui.theme.px(parts_gap);
  const float wanted = ui.theme.px(details_width);
  const bool column = box.width() > 2 * wanted;
  const float side = column ? box.max.x - wanted : box.max.x + gap;  // its left edge
  const float head = std::min(box.min.y + time_header_height(ui), box.max.y);
  const float split = split_of(ui, model, state, {{box.min.x, head}, {side - gap, box.max.y}});
  draw_time_header(ui, model, state, {box.min, {side - gap, head}});
  if (parts_.timeline) {
    timeline_.draw(ui, model, state, {{box.min.x, head}, {side - gap, split - gap}});
  }
  if (parts_.memory) {
    const Box plot{{box.min.x, split}, {side - gap, box.max.y}};
    draw_memory_panel(ui, model, state, plot);
    draw_problem_marks(ui, model, state, {{plot.min.x, plot.min.y + ui.theme.px(24)}, plot.max});
  }
  draw_cursor(ui, state, {box.min, {side - gap, box.max.y}});
  draw_measured(ui, state, {box.min, {side - gap, box.max.y}});
  if (column) draw_column(ui, model, state, {{side, box.min.y}, box.max}, split);
}

// Details above the legend of memory, which begins where memory does or has as much as it needs.
void TimelinePage::draw_column(Surface& ui, TraceModel& model, ViewState& state, const Box& box,
                               float split) const {
  const float gap = ui.theme.px(parts_gap);
  const float needed = std::min(ui.theme.px(memory_height), 0.42F * box.height());
  const float legend = !parts_.memory    ? box.max.y + gap
                       : parts_.timeline ? std::max(split, box.max.y - needed)
                                         : box.min.y;
  if (parts_.memory) draw_memory_legend(ui, model, state, {{box.min.x, legend}, box.max});
  if (parts_.timeline) draw_details(ui, model, state, {box.min, {box.max.x, legend - gap}});
}

// Where memory begins: operations take what they can fill, memory the rest.
float TimelinePage::split_of(const Surface& ui, TraceModel& model, const ViewState& state,
                             const Box& box) const {
  const float gap = ui.theme.px(parts_gap);
  if (!parts_.memory) return box.max.y + gap;
  if (!parts_.timeline) return box.min.y;
  const float memory = std::min(ui.theme.px(memory_height), 0.42F * box.height());
  const float rows = timeline_.wanted_height(ui, model, state, box.width());
  return std::min(box.max.y - memory, box.min.y + rows + gap);
}

}  // namespace tessera::inspector
