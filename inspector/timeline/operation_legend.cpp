// SPDX-License-Identifier: Apache-2.0
#include "inspector/timeline/operation_legend.h"

#include <vector>

#include "inspector/widgets/legend.h"

namespace tessera::inspector {
namespace {

constexpr float beside = 12, above = 5;

std::vector<LegendEntry> entries_of(const Surface& ui, const TraceModel& model,
                                    const SeenMarks& seen) {
  std::vector<LegendEntry> entries;
  for (int c = 0; c < op_class_count; ++c) {
    if (!seen.classes[static_cast<std::size_t>(c)]) continue;
    const auto op_class = static_cast<OpClass>(c);
    entries.push_back({LegendMark::colour, ui.colours().of(op_class), model.class_name(op_class)});
  }
  if (seen.waits) entries.push_back({LegendMark::wait, ui.theme.dim, "waits for others"});
  if (seen.exposed) entries.push_back({LegendMark::exposed, ui.theme.text, "exposed"});
  if (seen.prefetches) {
    entries.push_back({LegendMark::prefetch, ui.theme.dim, "prefetch: issued, first used"});
  }
  if (seen.late_prefetches) {
    entries.push_back(
        {LegendMark::prefetch, ui.colours().fail, "late prefetch: compute stood still"});
  }
  if (seen.merged) entries.push_back({LegendMark::merged, ui.theme.dim, "fainter: busy in part"});
  if (seen.path) entries.push_back({LegendMark::line, ui.theme.text, "critical path"});
  for (const MemoryClass c : device_memory_stack) {
    if (!seen.memory[static_cast<std::size_t>(c)]) continue;
    entries.push_back({LegendMark::colour, ui.colours().of(c), std::string(name_of(c))});
  }
  if (seen.capacity) entries.push_back({LegendMark::line, ui.colours().fail, "capacity"});
  return entries;
}

}  // namespace

float operation_legend_height(const Surface& ui, const TraceModel& model, const SeenMarks& seen,
                              float width) {
  const float tall =
      legend_height(ui, entries_of(ui, model, seen), width - 2 * ui.theme.px(beside));
  return tall > 0 ? tall + ui.theme.px(above + 1) : 0;
}

void draw_operation_legend(const Surface& ui, const TraceModel& model, ViewState& state,
                           const SeenMarks& seen, const Box& box) {
  const float pad = ui.theme.px(beside);
  ImGui::GetWindowDrawList()->AddRectFilled(box.min, {box.max.x, box.min.y + 1}, ui.theme.line);
  ImGui::GetWindowDrawList()->PushClipRect(box.min, box.max, true);
  state.fields["legend/operations"] = draw_legend(
      ui, entries_of(ui, model, seen),
      {{box.min.x + pad, box.min.y + ui.theme.px(above)}, {box.max.x - pad, box.max.y}});
  ImGui::GetWindowDrawList()->PopClipRect();
}

}  // namespace tessera::inspector
