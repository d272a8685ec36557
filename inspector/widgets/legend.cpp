// SPDX-License-Identifier: Apache-2.0
#include "inspector/widgets/legend.h"

#include <cmath>

#include "inspector/widgets/drawing.h"

namespace tessera::inspector {
namespace {

float legend_line(const Surface& ui) { return ui.fonts.small->FontSize + ui.theme.px(6); }

// Calls `place` with the place of each entry, from the left, line by line; returns the lines.
template <class Place>
int flow(const Surface& ui, const std::vector<LegendEntry>& entries, float width, Place place) {
  float x = 0;
  int line = 0;
  for (const LegendEntry& entry : entries) {
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

void draw_mark(const Surface& ui, const LegendEntry& entry, ImVec2 at) {
  ImDrawList* draw = ImGui::GetWindowDrawList();
  const float size = ui.theme.px(9);
  switch (entry.mark) {
    case LegendMark::colour: return draw_swatch(ui, at, entry.colour, false);
    case LegendMark::wait: return draw_swatch(ui, at, mix(ui.theme.panel, entry.colour, 72), true);
    case LegendMark::exposed:
      draw->AddRectFilled(at, {at.x + size, at.y + size}, mix(ui.theme.panel, ui.theme.dim, 128));
      draw->AddRectFilled({at.x, at.y + size - ui.theme.px(2)}, {at.x + size, at.y + size},
                          entry.colour);
      return;
    case LegendMark::line:
      draw->AddRectFilled({at.x, at.y + size / 2 - ui.theme.px(1)},
                          {at.x + size, at.y + size / 2 + ui.theme.px(1)}, entry.colour);
      return;
    case LegendMark::prefetch: {
      const float x = at.x + size, y = at.y + size / 2, r = ui.theme.px(3);
      draw->AddRectFilled({at.x, at.y}, {at.x + ui.theme.px(1), at.y + size}, entry.colour);
      draw->AddRectFilled({at.x, std::floor(y)}, {x, std::floor(y) + 1}, entry.colour);
      draw->AddQuadFilled({x - 2 * r, y}, {x - r, y - r}, {x, y}, {x - r, y + r}, entry.colour);
      return;
    }
    case LegendMark::merged:
      draw->AddRectFilledMultiColor(at, {at.x + size, at.y + size}, entry.colour, ui.theme.panel,
                                    ui.theme.panel, entry.colour);
      return;
  }
}

}  // namespace

float legend_height(const Surface& ui, const std::vector<LegendEntry>& entries, float width) {
  const int lines = flow(ui, entries, width, [](const LegendEntry&, float, int) {});
  return legend_line(ui) * static_cast<float>(lines);
}

std::string draw_legend(const Surface& ui, const std::vector<LegendEntry>& entries,
                        const Box& box) {
  std::string all;
  flow(ui, entries, box.width(), [&](const LegendEntry& entry, float x, int line) {
    const ImVec2 at{box.min.x + x, box.min.y + legend_line(ui) * static_cast<float>(line)};
    draw_mark(ui, entry, {at.x, at.y + ui.theme.px(2)});
    draw_text(ui.fonts.small, {at.x + ui.theme.px(17), at.y}, ui.theme.text, entry.words);
    all += all.empty() ? entry.words : ", " + entry.words;
  });
  return all;
}

}  // namespace tessera::inspector
