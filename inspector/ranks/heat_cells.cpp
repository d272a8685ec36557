// SPDX-License-Identifier: Apache-2.0
#include "inspector/ranks/heat_cells.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace tessera::inspector {
namespace {

constexpr double median_place = 0.5;  // where the median is
constexpr double nothing = -1;

}  // namespace

namespace {

/// Rows that a rank is drawn in: [first, end).
struct RowRange {
  std::size_t first, end;
};

std::vector<RowRange> rows_of(std::int64_t ranks, std::int64_t rows) {
  std::vector<RowRange> out;
  for (std::int64_t rank = 0; rank < ranks; ++rank) {
    const std::int64_t first = rank * rows / ranks;
    const std::int64_t end = std::max(first + 1, (rank + 1) * rows / ranks);
    out.push_back({static_cast<std::size_t>(first), static_cast<std::size_t>(end)});
  }
  return out;
}

/// Whether `place` is further from the median than `other`, or as far and above it.
bool further(double place, double other) {
  if (other == nothing) return true;
  const double more = std::abs(place - median_place) - std::abs(other - median_place);
  return more > 0 || (more == 0 && place > other);
}

struct Extremes {
  std::int64_t low = std::numeric_limits<std::int64_t>::max();
  std::int64_t high = std::numeric_limits<std::int64_t>::min();
  bool none() const { return low > high; }
};

}  // namespace

// Places ascend with values, so that of the ranks of a row the lowest or the highest is furthest.
std::vector<double> heat_cells(const analysis::MetricFigures& figures, int rows, int columns) {
  const analysis::MetricTable& table = figures.table;
  const auto width = static_cast<std::size_t>(columns);
  std::vector<double> cells(static_cast<std::size_t>(rows) * width, nothing);
  const std::vector<RowRange> places = rows_of(table.ranks(), rows);
  std::vector<Extremes> extremes(static_cast<std::size_t>(rows));
  for (int step = 0; step < table.steps(); ++step) {
    std::fill(extremes.begin(), extremes.end(), Extremes{});
    const std::vector<std::int64_t> values = table.step(step);
    for (std::size_t rank = 0; rank < values.size(); ++rank) {
      if (!table.known(step, static_cast<Rank>(rank))) continue;
      for (std::size_t row = places[rank].first; row < places[rank].end; ++row) {
        extremes[row].low = std::min(extremes[row].low, values[rank]);
        extremes[row].high = std::max(extremes[row].high, values[rank]);
      }
    }
    const auto begin = static_cast<std::size_t>(std::int64_t{step} * columns / table.steps());
    const auto after = static_cast<std::size_t>((std::int64_t{step} + 1) * columns / table.steps());
    for (std::size_t row = 0; row < extremes.size(); ++row) {
      if (extremes[row].none()) continue;
      const double low = figures.scale.at(extremes[row].low);
      const double high = figures.scale.at(extremes[row].high);
      const double place = further(low, high) ? low : high;
      for (std::size_t column = begin; column < std::max(begin + 1, after); ++column) {
        double& cell = cells[row * width + column];
        if (further(place, cell)) cell = place;
      }
    }
  }
  return cells;
}

}  // namespace tessera::inspector
