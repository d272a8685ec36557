// SPDX-License-Identifier: Apache-2.0
#include "inspector/ranks/step_spread.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "inspector/widgets/drawing.h"
#include "inspector/widgets/legend.h"
#include "inspector/widgets/value_axis.h"

namespace tessera::inspector {
namespace {

using analysis::Metric;
using analysis::Spread;

constexpr float head_px = 34, foot_px = 14, least_plot_px = 30;

ValueAxis axis_of(const analysis::MetricFigures& figures) {
  std::int64_t least = figures.spreads.front().low, most = 0;
  for (const Spread& spread : figures.spreads) {
    least = std::min(least, spread.low);
    most = std::max(most, spread.high);
  }
  const bool memory = figures.table.metric() == Metric::peak_memory;
  return {static_cast<double>(least), static_cast<double>(most),
          memory ? AxisUnit::memory : AxisUnit::time};
}

// What it shows, and in which colours where there is room.
void draw_head(const Surface& ui, const analysis::MetricTable& table, const Box& plot, float top) {
  const float y = top + ui.theme.px(9);
  const std::vector<LegendEntry> lines = {
      {LegendMark::line, ui.colours().of(OpClass::reduce_scatter), "highest rank"},
      {LegendMark::line, ui.theme.accent, "median"},
      {LegendMark::colour, with_alpha(ui.theme.accent, 70), "lowest to highest"}};
  const std::string words = fmt::format("{} of each step", name_of(table.metric()));
  const float legend = plot.min.x + text_width(ui.fonts.strong, words) + ui.theme.px(18);
  const float one_line = legend_height(ui, {lines.front()}, plot.width());
  const bool roomy =
      legend < plot.max.x && legend_height(ui, lines, plot.max.x - legend) <= one_line;
  ImGui::PushFont(ui.fonts.strong);
  draw_text(ui.fonts.strong, {plot.min.x, y}, ui.theme.text, fitted(words, plot.width()));
  ImGui::PopFont();
  const bool several = table.ranks() > 1;  // one alone is the highest, the median and the lowest
  if (roomy && several) draw_legend(ui, lines, {{legend, y + ui.theme.px(3)}, plot.max});
}

void draw_marks(const Surface& ui, const ValueAxis& axis, const Box& plot) {
  float above = plot.max.y + plot.height();  // the last label
  for (const double mark : axis.marks()) {
    const float y = std::floor(plot.max.y - static_cast<float>(axis.share(mark)) * plot.height());
    ImGui::GetWindowDrawList()->AddRectFilled({plot.min.x, y}, {plot.max.x, y + 1}, ui.theme.line);
    if (above - y < ui.fonts.small->FontSize + ui.theme.px(2)) continue;  // no room for both
    draw_text_right(ui.fonts.small, {plot.min.x - ui.theme.px(8), y - ui.fonts.small->FontSize / 2},
                    ui.theme.dim, axis.text(mark));
    above = y;
  }
}

}  // namespace

float least_step_spread(const Theme& theme) { return theme.px(head_px + foot_px + least_plot_px); }

void draw_step_spread(const Surface& ui, const analysis::MetricFigures& figures, float axis_width,
                      const Box& box) {
  const Theme& theme = ui.theme;
  const int steps = figures.table.steps();
  const Box plot{{box.min.x + axis_width, box.min.y + theme.px(head_px)},
                 {box.max.x - theme.px(16), box.max.y - theme.px(foot_px)}};
  if (plot.width() < theme.px(40) || plot.height() < theme.px(least_plot_px) || steps == 0)
    return;  // no room
  draw_head(ui, figures.table, plot, box.min.y);
  const ValueAxis axis = axis_of(figures);
  draw_marks(ui, axis, plot);
  const auto y_of = [&](std::int64_t value) {
    const double share = axis.share(static_cast<double>(value));
    return std::floor(plot.max.y - static_cast<float>(share) * plot.height());
  };
  const auto x_of = [&](int step) {
    return std::floor(plot.min.x +
                      plot.width() * static_cast<float>(step) / static_cast<float>(steps));
  };
  // As the cells of the map above, as far as they are wide enough.
  const float apart = steps <= 40 && plot.width() > 6 * static_cast<float>(steps) ? 2 : 0;
  ImDrawList* draw = ImGui::GetWindowDrawList();
  for (int step = 0; step < steps; ++step) {
    Spread s = figures.spreads[static_cast<std::size_t>(step)];
    const float x0 = x_of(step) + (step > 0 ? apart : 0);
    // Steps of one pixel are one mark: from the lowest to the highest of them.
    for (; step + 1 < steps && x_of(step + 2) <= x0 + 1; ++step) {
      const Spread& next = figures.spreads[static_cast<std::size_t>(step) + 1];
      s.low = std::min(s.low, next.low);
      s.median = std::max(s.median, next.median);
      s.high = std::max(s.high, next.high);
    }
    const float x1 = x_of(step + 1);
    // An area says how much something is, which it only does from zero.
    if (axis.from_zero()) {
      draw->AddRectFilled({x0, y_of(s.median)}, {x1, plot.max.y}, theme.raised);
    }
    draw->AddRectFilled({x0, y_of(s.high)}, {x1, std::max(y_of(s.low), y_of(s.high) + 1)},
                        with_alpha(theme.accent, 70));
    const float half = theme.px(1);
    draw->AddRectFilled({x0, y_of(s.high) - half}, {x1, y_of(s.high) + half},
                        ui.colours().of(OpClass::reduce_scatter));
    draw->AddRectFilled({x0, y_of(s.median) - half}, {x1, y_of(s.median) + half}, theme.accent);
  }
}

}  // namespace tessera::inspector
