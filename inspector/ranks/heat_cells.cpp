// SPDX-License-Identifier: Apache-2.0
#include "inspector/ranks/heat_cells.h"

#include <algorithm>
#include <cmath>

namespace tessera::inspector {
namespace {

constexpr double median_place = 0.5;  // where the median is
constexpr double nothing = -1;

}  // namespace

std::vector<double> heat_cells(const analysis::MetricFigures& figures, int rows, int columns) {
  const analysis::MetricTable& table = figures.table;
  std::vector<double> cells(static_cast<std::size_t>(rows) * static_cast<std::size_t>(columns),
                            nothing);
  for (int step = 0; step < table.steps(); ++step) {
    const int c0 = static_cast<int>(std::int64_t{step} * columns / table.steps());
    const int c1 = static_cast<int>((std::int64_t{step} + 1) * columns / table.steps());
    for (int rank = 0; rank < table.ranks(); ++rank) {
      if (!table.known(step, rank)) continue;
      const double place = figures.scale.at(table.at(step, rank));
      const auto r0 = static_cast<int>(std::int64_t{rank} * rows / table.ranks());
      const auto r1 = static_cast<int>((std::int64_t{rank} + 1) * rows / table.ranks());
      for (int row = r0; row < std::max(r0 + 1, r1); ++row) {
        for (int column = c0; column < std::max(c0 + 1, c1); ++column) {
          double& cell = cells[static_cast<std::size_t>(row) * static_cast<std::size_t>(columns) +
                               static_cast<std::size_t>(column)];
          if (cell == nothing) {
            cell = place;
            continue;
          }
          const double further = std::abs(place - median_place) - std::abs(cell - median_place);
          if (further > 0 || (further == 0 && place > cell)) cell = place;
        }
      }
    }
  }
  return cells;
}

}  // namespace tessera::inspector
