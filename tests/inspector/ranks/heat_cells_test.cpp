// SPDX-License-Identifier: Apache-2.0
#include "inspector/ranks/heat_cells.h"

#include <algorithm>
#include <catch2/catch.hpp>
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

}  // namespace
}  // namespace tessera::inspector
