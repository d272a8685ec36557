// SPDX-License-Identifier: Apache-2.0
#include "inspector/app/timeline_page.h"

#include <algorithm>
#include <cmath>

#include "inspector/details/details_panel.h"
#include "inspector/memory/memory_panel.h"
#include "inspector/timeline/note_flags.h"
#include "inspector/timeline/time_header.h"
#include "inspector/widgets/gutter.h"

namespace tessera::inspector {
namespace {

constexpr float details_width = 340, details_least = 200;
constexpr float memory_height = 286, memory_least = 90;
constexpr float no_memory_height = 64;  // of a sentence that says so
constexpr float parts_gap = 6;          // between the parts of a page
constexpr float share_most = 0.7F;      // of the page that a part can be given

// The time under the mouse, over everything that shares the axis.
void draw_cursor(const Surface& ui, const ViewState& state, const Box& box) {
  if (!state.pointed()) return;
  const TimeStretch stretch = time_stretch(box, ui.theme.px(state.gutter), ui.theme.px(8));
  const float left = stretch.left, width = stretch.width;
  const float x = std::floor(state.time.x_of(*state.pointed(), left, width));
  ImGui::GetWindowDrawList()->AddRectFilled({x, box.min.y}, {x + 1, box.max.y},
                                            with_alpha(ui.theme.accent, 140));
}

}  // namespace

void TimelinePage::draw(Surface& ui, TraceModel& model, ViewState& state, const Box& box) {
  const float gap = ui.theme.px(parts_gap);
  const Layout& layout = state.layout;
  const float chosen = layout.details > 0 ? layout.details : details_width;
  const float wanted = std::min(ui.theme.px(chosen), share_most * box.width());
  const bool column = box.width() > 2 * ui.theme.px(details_width) && !layout.hides_details;
  const float side = column ? box.max.x - wanted : box.max.x + gap;  // its left edge
  state.gutter =
      parts_.timeline ? gutter_of(ui, model, state.rank, side - box.min.x, 0) : least_gutter_px;
  const float head = std::min(box.min.y + time_header_height(ui), box.max.y);
  const float split = split_of(ui, model, state, {{box.min.x, head}, {side - gap, box.max.y}});
  draw_time_header(ui, model, state, {box.min, {side - gap, head}});
  if (parts_.timeline) {
    timeline_.draw(ui, model, state, {{box.min.x, head}, {side - gap, split - gap}});
  }
  if (shows_memory(state)) {
    const Box plot{{box.min.x, split}, {side - gap, box.max.y}};
    draw_memory_panel(ui, model, state, plot);
    draw_problem_marks(ui, model, state, {{plot.min.x, plot.min.y + ui.theme.px(24)}, plot.max});
  }
  draw_cursor(ui, state, {box.min, {side - gap, box.max.y}});
  draw_measured(ui, state, {box.min, {side - gap, box.max.y}});
  draw_note_flags(ui, state, {box.min, {side - gap, box.max.y}});
  drag_edges(ui, state, box, column ? side : box.max.x, split);
  if (column) draw_column(ui, model, state, {{side, box.min.y}, box.max}, split);
}

// Details above the legend of memory, which begins where memory does or has as much as it needs.
void TimelinePage::draw_column(Surface& ui, TraceModel& model, ViewState& state, const Box& box,
                               float split) const {
  const float gap = ui.theme.px(parts_gap);
  const bool memory = shows_memory(state) && model.memory(state.rank).pyramid != nullptr;
  const float needed = std::min(ui.theme.px(memory_height), 0.42F * box.height());
  const float legend = !memory           ? box.max.y + gap
                       : parts_.timeline ? std::max(split, box.max.y - needed)
                                         : box.min.y;
  if (memory) draw_memory_legend(ui, model, state, {{box.min.x, legend}, box.max});
  if (parts_.timeline) draw_details(ui, model, state, {box.min, {box.max.x, legend - gap}});
}

// Where memory begins: operations take what they can fill, memory the rest.
float TimelinePage::split_of(const Surface& ui, TraceModel& model, const ViewState& state,
                             const Box& box) const {
  const float gap = ui.theme.px(parts_gap);
  if (!shows_memory(state)) return box.max.y + gap;
  if (!parts_.timeline) return box.min.y;
  if (state.layout.memory > 0) {
    const float most = share_most * box.height();
    return box.max.y - std::min(ui.theme.px(state.layout.memory), most);
  }
  const bool samples = model.memory(state.rank).pyramid != nullptr;
  const float memory =
      std::min(ui.theme.px(samples ? memory_height : no_memory_height), 0.42F * box.height());
  const float rows = timeline_.wanted_height(ui, model, state, box.width());
  return std::min(box.max.y - memory, box.min.y + rows + gap);
}

// The edges between parts: a drag moves one, a double click gives it back what is useful.
void TimelinePage::drag_edges(const Surface& ui, ViewState& state, const Box& box, float side,
                              float split) {
  const float gap = ui.theme.px(parts_gap);
  const ImGuiIO& io = ImGui::GetIO();
  const Box below{{box.min.x, split - gap}, {side - gap, split}};
  const Box beside{{side - gap, box.min.y}, {side, box.max.y}};
  const bool movable = parts_.timeline && shows_memory(state);
  if (movable) state.place("edge/memory", below.min, below.max);
  if (side < box.max.x) state.place("edge/details", beside.min, beside.max);
  const bool over_memory = movable && below.contains(io.MousePos) && ImGui::IsWindowHovered();
  const bool over_details =
      side < box.max.x && beside.contains(io.MousePos) && ImGui::IsWindowHovered();
  if (over_memory || dragged_ == Edge::memory) ImGui::SetMouseCursor(ImGuiMouseCursor_ResizeNS);
  if (over_details || dragged_ == Edge::details) ImGui::SetMouseCursor(ImGuiMouseCursor_ResizeEW);
  if (ImGui::IsMouseClicked(0)) {
    dragged_ = over_memory ? Edge::memory : over_details ? Edge::details : Edge::none;
  }
  if (!ImGui::IsMouseDown(0)) dragged_ = Edge::none;
  const float scale = ui.theme.px(1);
  if (dragged_ == Edge::memory && ImGui::IsMouseDragging(0, 2)) {
    state.layout.memory = std::clamp((box.max.y - io.MousePos.y) / scale, memory_least,
                                     std::max(memory_least, share_most * box.height() / scale));
  }
  if (dragged_ == Edge::details && ImGui::IsMouseDragging(0, 2)) {
    state.layout.details = std::clamp((box.max.x - io.MousePos.x) / scale, details_least,
                                      std::max(details_least, share_most * box.width() / scale));
  }
  if (!ImGui::IsMouseDoubleClicked(0)) return;
  if (over_memory) state.layout.memory = 0;
  if (over_details) state.layout.details = 0;
}

}  // namespace tessera::inspector
