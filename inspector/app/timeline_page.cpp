// SPDX-License-Identifier: Apache-2.0
#include "inspector/app/timeline_page.h"

#include <algorithm>
#include <cmath>

#include "inspector/details/details_panel.h"
#include "inspector/memory/memory_panel.h"

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
  const float split = !parts_.memory ? box.max.y + gap
                      : !parts_.timeline
                          ? box.min.y
                          : box.max.y - std::min(ui.theme.px(memory_height), 0.42F * box.height());
  if (parts_.timeline) timeline_.draw(ui, model, state, {box.min, {side - gap, split - gap}});
  if (parts_.memory) {
    const Box plot{{box.min.x, split}, {side - gap, box.max.y}};
    draw_memory_panel(ui, model, state, plot);
    if (column) draw_memory_legend(ui, model, state, {{side, split}, box.max});
  }
  draw_cursor(ui, state, {box.min, {side - gap, box.max.y}});
  if (parts_.timeline && column) {
    draw_details(ui, model, state, {{side, box.min.y}, {box.max.x, split - gap}});
  }
}

}  // namespace tessera::inspector
