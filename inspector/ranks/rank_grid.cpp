// SPDX-License-Identifier: Apache-2.0
#include "inspector/ranks/rank_grid.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "inspector/widgets/drawing.h"
#include "inspector/widgets/format.h"

namespace tessera::inspector {

std::string draw_rank_grid(Surface& ui, TraceModel& model, ViewState& state, float width) {
  const storage::RankSteps& s = model.steps();
  if (s.steps == 0 || s.ranks < 2) return "";
  const std::int32_t step = model.last_step();
  const auto row = static_cast<std::ptrdiff_t>(step) * s.ranks;
  const std::vector<Time> compute(s.compute.begin() + row, s.compute.begin() + row + s.ranks);
  std::vector<double> values(compute.begin(), compute.end());
  const RobustScale scale = robust_scale(values);
  heading(ui, fmt::format("Compute time by rank, step {}", step));

  // Rows of whole nodes with a gap between nodes; of many ranks several share a cell, the slowest
  // shows.
  const int per_node = std::max(1, model.run().ranks_per_node);
  const int columns = s.ranks <= 128 ? std::min<int>(s.ranks, 16) : 64;
  const int shown = std::min<int>(s.ranks, columns * 48);
  const int per_cell = (s.ranks + shown - 1) / shown;
  const bool roomy = s.ranks <= 128;
  const float node_gap = roomy ? ui.theme.px(4) : 0;
  const float gap = roomy ? ui.theme.px(2) : 1;
  const float gaps = node_gap * static_cast<float>((columns - 1) / per_node);
  const float cell = std::floor((width - gaps) / static_cast<float>(columns));
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
    const double value = *std::max_element(first, last);
    draw->AddRectFilled(low, high, sequential(scale.at(value)), roomy ? 2.0F : 0.0F);
    if (per_cell > 1) continue;
    if (k == state.rank) {
      draw->AddRect({low.x - 1, low.y - 1}, {high.x + 1, high.y + 1}, ui.theme.text, 2.0F);
    }
    if (!Box{low, high}.contains(ImGui::GetIO().MousePos) || !ImGui::IsWindowHovered()) continue;
    const Time time = compute[static_cast<std::size_t>(k)];
    ImGui::SetTooltip("rank %d: compute %s", k, format_time(time).c_str());
    if (ImGui::IsMouseClicked(0) && model.recorded(k)) {
      state.rank = k;
      state.scroll_to_rank = true;
    }
  }
  const int rows = (shown + columns - 1) / columns;
  ImGui::Dummy({width, static_cast<float>(rows) * cell + ui.theme.px(4)});
  const auto slowest = std::max_element(values.begin(), values.end());
  const double excess = scale.low > 0 ? *slowest / scale.low - 1 : 0;
  return fmt::format("slowest: rank {}, {:+.1f} % over the median", slowest - values.begin(),
                     100 * excess);
}

}  // namespace tessera::inspector
