// SPDX-License-Identifier: Apache-2.0
#include "inspector/timeline/flow_lines.h"

#include <algorithm>
#include <cmath>

#include "inspector/widgets/drawing.h"

namespace tessera::inspector {
namespace {

struct FlowEnds {
  ImVec2 from, to;
};

// Out of what is over and into what begins, both level, so that lines of neighbours stay apart.
void draw_flow(const Surface& ui, const FlowEnds& ends) {
  ImDrawList* draw = ImGui::GetWindowDrawList();
  const float bend =
      std::clamp(std::abs(ends.to.x - ends.from.x) / 2, ui.theme.px(4), ui.theme.px(60));
  const ImVec2 out{ends.from.x + bend, ends.from.y}, in{ends.to.x - bend, ends.to.y};
  constexpr int pieces = 16;
  // With an edge, so that it shows on bars of every colour.
  draw->AddBezierCubic(ends.from, out, in, ends.to, with_alpha(ui.theme.panel, 200),
                       ui.theme.px(3.5F), pieces);
  draw->AddBezierCubic(ends.from, out, in, ends.to, ui.theme.accent, ui.theme.px(1.5F), pieces);
  const float r = ui.theme.px(4);
  draw->AddTriangleFilled({ends.to.x - r, ends.to.y - r}, {ends.to.x, ends.to.y},
                          {ends.to.x - r, ends.to.y + r}, ui.theme.accent);
}

}  // namespace

void draw_flow_lines(const Surface& ui, TraceModel& model, ViewState& state, const Box& box,
                     const LaneMiddle& middle_of) {
  if (!state.selection) return;
  const TimeStretch stretch = time_stretch(box, ui.theme.px(state.gutter), ui.theme.px(8));
  const auto place = [&](const SpanRef& span, bool end) -> std::optional<ImVec2> {
    const auto middle = middle_of(span.rank, span.stream);
    if (!middle) return {};
    const SpanTimes times = model.times(span);
    const Time time = end ? times.end : times.begin;
    const float x = state.time.x_of(time, stretch.left, stretch.width);
    // What is out of view comes from the edge, as far as a line can be told.
    const float reach = stretch.width;
    if (x < stretch.left - reach || x > stretch.left + 2 * stretch.width) return {};
    return ImVec2{x, *middle};
  };
  const SpanRef& chosen = *state.selection;
  const TraceModel::Flow& flow = model.flow(chosen);
  ImGui::GetWindowDrawList()->PushClipRect({stretch.left, box.min.y},
                                           {stretch.left + stretch.width, box.max.y}, true);
  const auto begin = place(chosen, false), end = place(chosen, true);
  std::int64_t drawn = 0;
  for (const SpanRef& cause : flow.causes) {
    const auto from = place(cause, true);
    if (!from || !begin) continue;
    draw_flow(ui, {*from, *begin});
    ++drawn;
  }
  for (const SpanRef& use : flow.uses) {
    const auto to = place(use, false);
    if (!to || !end) continue;
    draw_flow(ui, {*end, *to});
    ++drawn;
  }
  ImGui::GetWindowDrawList()->PopClipRect();
  state.fields["flow"] = std::to_string(drawn);
}

}  // namespace tessera::inspector
