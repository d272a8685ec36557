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
  const float ends = text_width(ui.fonts.small, low) + text_width(ui.fonts.small, high);
  if (ends + ui.theme.px(8) < width) draw_text(ui.fonts.small, below, ui.theme.dim, low);
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

namespace {

/// Ranks on cells: one each, or so many whole nodes that all have room. Rows are of whole nodes.
struct GridShape {
  int per_cell, columns, rows;
  bool roomy;  // cells apart, nodes further apart
};

GridShape shape_of(int ranks, int per_node) {
  constexpr int few = 128, most_cells = 64 * 48;
  if (ranks <= few) {
    const int columns = per_node >= 16 || per_node <= 0 ? 16 : 16 / per_node * per_node;
    const int used = std::min(ranks, std::max(1, columns));
    return {1, used, (ranks + used - 1) / used, true};
  }
  constexpr int wide = 64;
  int per_cell = ranks <= 8 * wide ? 1 : std::max(1, per_node);
  while ((ranks + per_cell - 1) / per_cell > most_cells) per_cell *= 2;
  const int cells = (ranks + per_cell - 1) / per_cell;
  const int node_cells = std::max(1, per_node / per_cell);
  const int columns = std::max(1, wide / node_cells) * node_cells;
  return {per_cell, columns, (cells + columns - 1) / columns, false};
}

/// Where cells are in a grid `width` px wide.
struct GridPlaces {
  float cell, gap, node_gap;

  GridPlaces(const Surface& ui, const GridShape& shape, int per_node, float width,
             float most_cell_px)
      : gap(shape.roomy ? ui.theme.px(2) : 1), node_gap(shape.roomy ? ui.theme.px(4) : 0) {
    const float gaps = node_gap * static_cast<float>((shape.columns - 1) / per_node);
    cell = std::clamp(std::floor((width - gaps) / static_cast<float>(shape.columns)), 1 + gap,
                      ui.theme.px(most_cell_px));
  }
};

/// What a cell shows: of its ranks the one furthest from the middle of the scale.
Rank shown_rank(const analysis::MetricFigures& figures, Rank first, Rank end) {
  Rank furthest = first;
  const auto distance = [&](Rank rank) {
    return std::abs(figures.scale.at(figures.table.at(0, rank)) - 0.5);
  };
  for (Rank rank = first + 1; rank < end; ++rank) {
    if (distance(rank) > distance(furthest)) furthest = rank;
  }
  return furthest;
}

std::string cell_text(const TraceModel& model, Metric metric, std::int64_t value, Rank shown,
                      Rank first, Rank end) {
  const std::string ranks =
      end - first == 1 ? "" : fmt::format("ranks {} to {}, furthest off: ", first, end - 1);
  return fmt::format("{}rank {} on node {}\n{} {}{}", ranks, shown,
                     shown / std::max(1, model.run().ranks_per_node), name_of(metric),
                     format_metric(metric, value),
                     model.recorded(shown) ? "" : "\nno spans were recorded for this rank");
}

}  // namespace

float rank_grid_height(const Surface& ui, const TraceModel& model, float width,
                       float most_cell_px) {
  const int per_node = std::max(1, model.run().ranks_per_node);
  const GridShape shape = shape_of(model.rank_count(), per_node);
  const float cells =
      static_cast<float>(shape.rows) * GridPlaces(ui, shape, per_node, width, most_cell_px).cell;
  const float spacing = ImGui::GetStyle().ItemSpacing.y;
  // The heading, the cells, the scale and its numbers.
  return ui.fonts.strong->FontSize + cells + ui.theme.px(2 + 4 + 12 + 4) +
         ui.fonts.small->FontSize + 4 * spacing;
}

std::string draw_rank_grid(Surface& ui, TraceModel& model, ViewState& state, Metric metric,
                           std::int32_t wanted_step, float width, float most_cell_px) {
  const std::int32_t ranks = model.rank_count();
  if (model.step_count() == 0 || ranks < 2) return "";
  const std::int32_t step = std::clamp(wanted_step, 0, model.last_step());
  const analysis::MetricFigures* const of_step = model.metrics().step(metric, step);
  if (of_step == nullptr) return "";
  const analysis::MetricFigures& figures = *of_step;
  heading(ui, fmt::format("{} by rank, step {}", name_of(metric), step));
  const int per_node = std::max(1, model.run().ranks_per_node);
  const GridShape shape = shape_of(ranks, per_node);
  const auto [cell, gap, node_gap] = GridPlaces(ui, shape, per_node, width, most_cell_px);
  const ImVec2 at = ImGui::GetCursorScreenPos();
  ImDrawList* draw = ImGui::GetWindowDrawList();
  for (int k = 0; k * shape.per_cell < ranks; ++k) {
    const Rank first = k * shape.per_cell;
    const Rank end = std::min<Rank>(ranks, first + shape.per_cell);
    const int column = k % shape.columns;
    const float nodes = shape.roomy ? static_cast<float>(column / per_node) : 0;
    const float x = at.x + static_cast<float>(column) * cell + node_gap * nodes;
    const float y = at.y + static_cast<float>(k / shape.columns) * cell;
    const ImVec2 low{std::floor(x), std::floor(y)};
    const ImVec2 high{low.x + cell - gap, low.y + cell - gap};
    const Rank shown = shown_rank(figures, first, end);
    const std::int64_t value = figures.table.at(0, shown);
    draw->AddRectFilled(low, high, sequential(figures.scale.at(value)), shape.roomy ? 2.0F : 0.0F);
    if (first <= state.rank && state.rank < end) {
      draw->AddRect({low.x - 1, low.y - 1}, {high.x + 1, high.y + 1}, ui.theme.text, 2.0F);
    }
    if (!Box{low, {low.x + cell, low.y + cell}}.contains(ImGui::GetIO().MousePos) ||
        !ImGui::IsWindowHovered()) {
      continue;
    }
    ImGui::SetTooltip("%s", cell_text(model, metric, value, shown, first, end).c_str());
    if (ImGui::IsMouseClicked(0) && model.recorded(shown)) {
      state.rank = shown;
      state.scroll_to_rank = true;
    }
  }
  const float tall = static_cast<float>(shape.rows) * cell;
  state.place("grid", at, {at.x + width, at.y + tall});
  ImGui::Dummy({width, tall + ui.theme.px(4)});
  draw_scale(ui, state, metric, figures.scale, width);
  const analysis::Spread& spread = figures.spreads.front();
  if (spread.high == spread.low) return "all ranks alike";
  if (spread.median <= 0 || ranks < 3) return fmt::format("highest: rank {}", spread.highest);
  const double excess = static_cast<double>(spread.high) / static_cast<double>(spread.median) - 1;
  return fmt::format("highest: rank {}, {:+.1f} % over the median", spread.highest, 100 * excess);
}

}  // namespace tessera::inspector
