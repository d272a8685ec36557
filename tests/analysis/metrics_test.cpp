// SPDX-License-Identifier: Apache-2.0
#include "tessera/analysis/metrics.h"

#include <catch2/catch.hpp>

#include "tests/random.h"

namespace tessera::analysis {
namespace {

MetricTable table(int ranks, int steps, std::vector<std::int64_t> values) {
  return {Metric::compute, ranks, steps, std::move(values)};
}

std::vector<std::int64_t> noise(std::uint64_t seed, int count) {
  test::Random random(seed);
  std::vector<std::int64_t> values;
  for (int k = 0; k < count; ++k) values.push_back(1000 + random.below(5));
  return values;
}

TEST_CASE("ranks that stand out are grouped with their steps", "[analysis][ranks]") {
  constexpr int ranks = 256, steps = 4;
  auto values = noise(6, ranks * steps);
  for (int step = 0; step < steps; ++step) {
    for (int rank = 64; rank < 72; ++rank) {
      auto& value = values[static_cast<std::size_t>(step * ranks + rank)];
      value = value * 119 / 100;
    }
  }
  values[static_cast<std::size_t>(2 * ranks + 200)] *= 2;
  const auto odd = outliers(table(ranks, steps, values));
  REQUIRE(odd.size() == 2);
  CHECK(odd[0].first_rank == 200);
  CHECK(odd[0].first_step == 2);
  CHECK(odd[0].last_step == 2);
  CHECK(odd[1].first_rank == 64);
  CHECK(odd[1].last_rank == 71);
  CHECK(odd[1].first_step == 0);
  CHECK(odd[1].last_step == 3);
  CHECK(odd[1].excess == Approx(0.19).margin(0.01));
}

TEST_CASE("the rank that waits least, for which all others wait, stands out", "[analysis][ranks]") {
  auto values = noise(8, 64 * 3);
  for (int step = 0; step < 3; ++step) values[static_cast<std::size_t>(step * 64 + 21)] = 0;
  const auto odd = outliers(table(64, 3, values));
  REQUIRE(odd.size() == 1);
  CHECK(odd[0].first_rank == 21);
  CHECK(odd[0].last_rank == 21);
  CHECK(odd[0].excess == -1);
}

TEST_CASE("noise is no outlier", "[analysis][ranks]") {
  CHECK(outliers(table(512, 2, noise(7, 1024))).empty());
}

TEST_CASE("a scale does not blow noise up", "[analysis][ranks]") {
  const MetricScale scale(std::vector<std::int64_t>{1000, 1001, 1002, 1003, 1004});
  CHECK(scale.at(1002) == 0.5);
  CHECK(scale.at(1000) > 0.4);
  CHECK(scale.at(1004) < 0.6);
}

TEST_CASE("one outlier has the end of the scale for itself and leaves the others their differences",
          "[analysis][ranks]") {
  // Compute times of eight ranks, ms; one is slow, and the next one is like the others.
  const std::vector<std::int64_t> values = {868, 870, 871, 1690, 869, 872, 881, 870};
  const MetricScale scale(values);
  CHECK(scale.at(1690) == 1);
  CHECK(scale.at(881) < 0.76);
  CHECK(scale.at(881) - scale.at(870) > 0.1);
  CHECK(scale.at(868) < scale.at(870));
  CHECK(scale.high() == 1690);
  CHECK(scale.low() == 868);
  CHECK(scale.median() == 871);
}

TEST_CASE("a scale ascends from 0 to 1, whatever the values are", "[analysis][ranks]") {
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    INFO("seed=" << seed);
    test::Random random(seed);
    std::vector<std::int64_t> values;
    const std::int64_t count = 1 + random.below(40);
    for (std::int64_t k = 0; k < count; ++k) {
      values.push_back(static_cast<std::int64_t>(random.next() >> 3) >> random.below(61));
    }
    const MetricScale scale(values);
    std::sort(values.begin(), values.end());
    CHECK(scale.at(scale.low()) >= 0);
    CHECK(scale.at(scale.high()) <= 1);
    CHECK(scale.low() == values.front());
    CHECK(scale.high() == values.back());
    for (std::size_t k = 1; k < values.size(); ++k) {
      CHECK(scale.at(values[k - 1]) <= scale.at(values[k]));
    }
    CHECK(scale.at(values.front() - 1'000'000) >= 0);
  }
}

TEST_CASE("the spread of a step is its lowest, middle and highest rank", "[analysis][ranks]") {
  const Spread spread = spread_of(table(4, 2, {9, 9, 9, 9, 4, 8, 2, 8}), 1);
  CHECK(spread.low == 2);
  CHECK(spread.lowest == 2);
  CHECK(spread.median == 6);
  CHECK(spread.high == 8);
  CHECK(spread.highest == 1);
}

}  // namespace
}  // namespace tessera::analysis
