// SPDX-License-Identifier: Apache-2.0
#include "inspector/timeline/operation_legend.h"

#include <string>
#include <vector>

#include "inspector/widgets/drawing.h"

namespace tessera::inspector {
namespace {

enum class Mark : std::uint8_t { colour, wait, exposed, merged, path };

struct Entry {
  Mark mark;
  Colour colour;
  std::string words;
};

std::vector<Entry> entries_of(const Surface& ui, const TraceModel& model, const SeenMarks& seen) {
  std::vector<Entry> entries;
  for (int c = 0; c < op_class_count; ++c) {
    if (!seen.classes[static_cast<std::size_t>(c)]) continue;
    const auto op_class = static_cast<OpClass>(c);
    entries.push_back({Mark::colour, ui.colours().of(op_class), model.class_name(op_class)});
  }
  if (seen.waits) entries.push_back({Mark::wait, ui.theme.dim, "waits for others"});
  if (seen.exposed) entries.push_back({Mark::exposed, ui.theme.text, "exposed"});
  if (seen.merged) entries.push_back({Mark::merged, ui.theme.dim, "fainter: busy in part"});
  if (seen.path) entries.push_back({Mark::path, ui.theme.text, "critical path"});
  return entries;
}

float legend_line(const Surface& ui) { return ui.fonts.small->FontSize + ui.theme.px(6); }

// Calls `place` with the place of each entry, from the left, line by line; returns the lines.
template <class Place>
int flow(const Surface& ui, const std::vector<Entry>& entries, float width, Place place) {
  float x = 0;
  int line = 0;
  for (const Entry& entry : entries) {
    const float wide = ui.theme.px(17) + text_width(ui.fonts.small, entry.words);
    if (x > 0 && x + wide > width) {
      x = 0;
      ++line;
    }
    place(entry, x, line);
    x += wide + ui.theme.px(18);
  }
  return entries.empty() ? 0 : line + 1;
}

void draw_mark(const Surface& ui, const Entry& entry, ImVec2 at) {
  ImDrawList* draw = ImGui::GetWindowDrawList();
  const float size = ui.theme.px(9);
  switch (entry.mark) {
    case Mark::colour: return draw_swatch(ui, at, entry.colour, false);
    case Mark::wait: return draw_swatch(ui, at, mix(ui.theme.panel, entry.colour, 72), true);
    case Mark::exposed:
      draw->AddRectFilled(at, {at.x + size, at.y + size}, mix(ui.theme.panel, ui.theme.dim, 128));
      draw->AddRectFilled({at.x, at.y + size - ui.theme.px(2)}, {at.x + size, at.y + size},
                          entry.colour);
      return;
    case Mark::path:
      draw->AddRectFilled({at.x, at.y + size / 2 - ui.theme.px(1)},
                          {at.x + size, at.y + size / 2 + ui.theme.px(1)}, entry.colour);
      return;
    case Mark::merged:
      draw->AddRectFilledMultiColor(at, {at.x + size, at.y + size}, entry.colour, ui.theme.panel,
                                    ui.theme.panel, entry.colour);
      return;
  }
}

}  // namespace

float operation_legend_height(const Surface& ui, const TraceModel& model, const SeenMarks& seen,
                              float width) {
  const int lines = flow(ui, entries_of(ui, model, seen), width - ui.theme.px(24),
                         [](const Entry&, float, int) {});
  return lines == 0 ? 0 : legend_line(ui) * static_cast<float>(lines) + ui.theme.px(6);
}

void draw_operation_legend(const Surface& ui, const TraceModel& model, ViewState& state,
                           const SeenMarks& seen, const Box& box) {
  std::string all;
  ImGui::GetWindowDrawList()->AddRectFilled(box.min, {box.max.x, box.min.y + 1}, ui.theme.line);
  ImGui::GetWindowDrawList()->PushClipRect(box.min, box.max, true);
  flow(ui, entries_of(ui, model, seen), box.width() - ui.theme.px(24),
       [&](const Entry& entry, float x, int line) {
         const ImVec2 at{box.min.x + ui.theme.px(12) + x,
                         box.min.y + ui.theme.px(5) + legend_line(ui) * static_cast<float>(line)};
         draw_mark(ui, entry, {at.x, at.y + ui.theme.px(2)});
         draw_text(ui.fonts.small, {at.x + ui.theme.px(17), at.y}, ui.theme.text, entry.words);
         all += all.empty() ? entry.words : ", " + entry.words;
       });
  ImGui::GetWindowDrawList()->PopClipRect();
  state.fields["legend/operations"] = all;
}

}  // namespace tessera::inspector
