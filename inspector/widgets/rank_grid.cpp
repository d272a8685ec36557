// SPDX-License-Identifier: Apache-2.0
#include "inspector/widgets/rank_grid.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "inspector/widgets/drawing.h"
#include "inspector/widgets/format.h"

namespace tessera::inspector {

using analysis::Metric;

void draw_scale(const Surface& ui, ViewState& state, Metric metric,
                const analysis::MetricScale& scale, float width) {
  constexpr int stretches = 64;
  const double from = scale.at(scale.low()), to = scale.at(scale.high());
  const ImVec2 at = ImGui::GetCursorScreenPos();
  const auto x_of = [&](double share) {
    return std::floor(at.x + width * static_cast<float>(share));
  };
  for (int k = 0; k < stretches; ++k) {
    const double place = from + (to - from) * (k + 0.5) / stretches;
    ImGui::GetWindowDrawList()->AddRectFilled(
        {x_of(static_cast<double>(k) / stretches), at.y},
        {x_of(static_cast<double>(k + 1) / stretches), at.y + ui.theme.px(10)}, sequential(place));
  }
  ImGui::Dummy({width, ui.theme.px(12)});
  const ImVec2 below = ImGui::GetCursorScreenPos();
  const std::string low = format_metric(metric, scale.low());
  const std::string median = "median " + format_metric(metric, scale.median());
  const std::string high = format_metric(metric, scale.high());
  state.fields["scale/low"] = low;
  state.fields["scale/median"] = median;
  state.fields["scale/high"] = high;
  draw_text(ui.fonts.small, below, ui.theme.dim, low);
  draw_text_right(ui.fonts.small, {below.x + width, below.y}, ui.theme.dim, high);
  // The median where its colour is, if the ends leave room.
  const float gap = ui.theme.px(8);
  const float half = text_width(ui.fonts.small, median) / 2;
  const float first = below.x + text_width(ui.fonts.small, low) + gap + half;
  const float last = below.x + width - text_width(ui.fonts.small, high) - gap - half;
  if (first <= last) {
    const float middle = to > from ? x_of((0.5 - from) / (to - from)) : x_of(0.5);
    draw_text(ui.fonts.small, {std::clamp(middle, first, last) - half, below.y}, ui.theme.dim,
              median);
  }
  ImGui::Dummy({width, ui.fonts.small->FontSize + ui.theme.px(4)});
}

std::string draw_rank_grid(Surface& ui, TraceModel& model, ViewState& state, Metric metric,
                           float width) {
  const storage::RankSteps& s = model.steps();
  if (s.steps == 0 || s.ranks < 2) return "";
  const analysis::MetricFigures& figures = model.metric(metric);
  const std::int32_t step = std::clamp(state.step, 0, model.last_step());
  const auto values = figures.table.step(step);
  heading(ui, fmt::format("{} by rank, step {}", name_of(metric), step));

  // Rows of whole nodes with a gap between nodes; of many ranks several share a cell, the highest
  // shows.
  const int per_node = std::max(1, model.run().ranks_per_node);
  const int columns = s.ranks <= 128 ? std::min<int>(s.ranks, 16) : 64;
  const int shown = std::min<int>(s.ranks, columns * 48);
  const int per_cell = (s.ranks + shown - 1) / shown;
  const bool roomy = s.ranks <= 128;
  const float node_gap = roomy ? ui.theme.px(4) : 0;
  const float gap = roomy ? ui.theme.px(2) : 1;
  const float gaps = node_gap * static_cast<float>((columns - 1) / per_node);
  const float cell = std::max(1 + gap, std::floor((width - gaps) / static_cast<float>(columns)));
  const ImVec2 at = ImGui::GetCursorScreenPos();
  ImDrawList* draw = ImGui::GetWindowDrawList();
  for (int k = 0; k * per_cell < s.ranks; ++k) {
    const auto first = values.begin() + k * per_cell;
    const auto last = values.begin() + std::min(s.ranks, (k + 1) * per_cell);
    const int column = k % columns;
    const float x =
        at.x + static_cast<float>(column) * cell + node_gap * static_cast<float>(column / per_node);
    const float y = at.y + static_cast<float>(k / columns) * cell;
    const ImVec2 low{std::floor(x), std::floor(y)};
    const ImVec2 high{low.x + cell - gap, low.y + cell - gap};
    const std::int64_t value = *std::max_element(first, last);
    draw->AddRectFilled(low, high, sequential(figures.scale.at(value)), roomy ? 2.0F : 0.0F);
    if (per_cell > 1) continue;
    if (k == state.rank) {
      draw->AddRect({low.x - 1, low.y - 1}, {high.x + 1, high.y + 1}, ui.theme.text, 2.0F);
    }
    if (!Box{low, high}.contains(ImGui::GetIO().MousePos) || !ImGui::IsWindowHovered()) continue;
    ImGui::SetTooltip("rank %d: %s", k, format_metric(metric, value).c_str());
    if (ImGui::IsMouseClicked(0) && model.recorded(k)) {
      state.rank = k;
      state.scroll_to_rank = true;
    }
  }
  const int rows = (shown + columns - 1) / columns;
  ImGui::Dummy({width, static_cast<float>(rows) * cell + ui.theme.px(4)});
  draw_scale(ui, state, metric, figures.scale, width);
  const analysis::Spread spread = spread_of(figures.table, step);
  if (spread.median <= 0) return "";
  const double excess = static_cast<double>(spread.high) / static_cast<double>(spread.median) - 1;
  return fmt::format("highest: rank {}, {:+.1f} % over the median", spread.highest, 100 * excess);
}

}  // namespace tessera::inspector
