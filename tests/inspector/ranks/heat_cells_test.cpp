// SPDX-License-Identifier: Apache-2.0
#include "inspector/ranks/heat_cells.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <span>

#include "tests/random.h"

namespace tessera::inspector {
namespace {

analysis::MetricFigures figures_of(int ranks, int steps, const std::vector<std::int64_t>& values) {
  analysis::MetricTable table(analysis::Metric::wait, ranks);
  for (int step = 0; step < steps; ++step) {
    table.add_step(std::span(values).subspan(static_cast<std::size_t>(step * ranks),
                                             static_cast<std::size_t>(ranks)));
  }
  return analysis::figures_of(std::move(table));
}

TEST_CASE("one odd rank among 16,384 is visible on 700 pixel rows, on either side",
          "[inspector][ranks]") {
  test::Random random(5);
  constexpr int ranks = 16384, steps = 5;
  std::vector<std::int64_t> values;
  for (int k = 0; k < ranks * steps; ++k) values.push_back(1000 + random.below(10));
  values[static_cast<std::size_t>(3 * ranks + 12345)] = 5000;
  values[static_cast<std::size_t>(1 * ranks + 777)] = 0;
  const auto cells = heat_cells(figures_of(ranks, steps, values), 700, 900);
  CHECK(*std::max_element(cells.begin(), cells.end()) == 1);
  CHECK(*std::min_element(cells.begin(), cells.end()) == 0);
}

TEST_CASE("fewer ranks than pixels fill all of them", "[inspector][ranks]") {
  const auto figures = figures_of(3, 2, {1, 2, 3, 4, 5, 6});
  const auto cells = heat_cells(figures, 10, 7);
  CHECK(cells.front() == figures.scale.at(1));
  CHECK(cells.back() == figures.scale.at(6));
  CHECK(cells[6] == figures.scale.at(4));
}

TEST_CASE("a pixel has the value that is furthest off of all that fall on it",
          "[inspector][ranks]") {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    INFO("seed=" << seed);
    test::Random random(seed);
    const int ranks = static_cast<int>(1 + random.below(60));
    const int steps = static_cast<int>(1 + random.below(40));
    std::vector<std::int64_t> values;
    for (int k = 0; k < ranks * steps; ++k) values.push_back(1000 + random.below(400));
    const auto figures = figures_of(ranks, steps, values);
    const int rows = static_cast<int>(1 + random.below(70));
    const int columns = static_cast<int>(1 + random.below(50));
    std::vector<double> expected(static_cast<std::size_t>(rows * columns), -1);
    const auto falls_on = [](int pixel, int pixels, int k, int count) {
      const int first = k * pixels / count;
      return first <= pixel && pixel < std::max(first + 1, (k + 1) * pixels / count);
    };
    for (int pixel = 0; pixel < rows * columns; ++pixel) {
      double& cell = expected[static_cast<std::size_t>(pixel)];
      for (int k = 0; k < ranks * steps; ++k) {
        if (!falls_on(pixel / columns, rows, k % ranks, ranks)) continue;
        if (!falls_on(pixel % columns, columns, k / ranks, steps)) continue;
        const double place = figures.scale.at(values[static_cast<std::size_t>(k)]);
        const double more = std::abs(place - 0.5) - std::abs(cell - 0.5);
        if (cell < 0 || more > 0 || (more == 0 && place > cell)) cell = place;
      }
    }
    CHECK(heat_cells(figures, rows, columns) == expected);
  }
}

}  // namespace
}  // namespace tessera::inspector
