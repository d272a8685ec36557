// SPDX-License-Identifier: Apache-2.0
#include "inspector/ranks/rank_grid.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "inspector/app/drawing.h"
#include "inspector/app/format.h"

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

  // Rows of whole nodes, cells as large as the width allows.
  const int per_node = std::max(1, model.run().ranks_per_node);
  const int columns = s.ranks <= 64 ? std::min<int>(s.ranks, 16) : 128;
  const int shown = std::min<int>(s.ranks, columns * 64);
  const int per_cell = (s.ranks + shown - 1) / shown;
  const float cell = std::floor(width / static_cast<float>(columns));
  const ImVec2 at = ImGui::GetCursorScreenPos();
  ImDrawList* draw = ImGui::GetWindowDrawList();
  const float gap = cell >= 6 ? ui.theme.px(2) : 0;
  for (int k = 0; k * per_cell < s.ranks; ++k) {
    const auto first = values.begin() + k * per_cell;
    const auto last = values.begin() + std::min(s.ranks, (k + 1) * per_cell);
    const double value = *std::max_element(first, last);
    const float node_gap =
        gap > 0 ? static_cast<float>(k % columns / per_node) * ui.theme.px(4) : 0;
    const float x = at.x + static_cast<float>(k % columns) * (cell - gap / 4) + node_gap -
                    static_cast<float>(k % columns) *
                        (gap > 0 ? ui.theme.px(4) * static_cast<float>((columns - 1) / per_node) /
                                       static_cast<float>(columns)
                                 : 0);
    const float y = at.y + static_cast<float>(k / columns) * cell;
    const ImVec2 low{std::floor(x), std::floor(y)};
    const ImVec2 high{low.x + cell - gap - (gap > 0 ? 1 : 0), low.y + cell - gap};
    draw->AddRectFilled(low, high, sequential(scale.at(value)), gap > 0 ? 2.0F : 0.0F);
    const bool open = per_cell == 1 && k == state.rank;
    if (open) draw->AddRect({low.x - 1, low.y - 1}, {high.x + 1, high.y + 1}, ui.theme.text, 2.0F);
    const ImVec2 mouse = ImGui::GetIO().MousePos;
    if (per_cell == 1 && Box{low, high}.contains(mouse) && ImGui::IsWindowHovered()) {
      ImGui::SetTooltip("rank %d: compute %s", k,
                        format_time(compute[static_cast<std::size_t>(k)]).c_str());
      if (ImGui::IsMouseClicked(0) && model.recorded(k)) {
        state.rank = k;
        state.scroll_to_rank = true;
      }
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
