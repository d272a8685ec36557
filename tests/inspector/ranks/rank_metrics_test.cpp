// SPDX-License-Identifier: Apache-2.0
#include "inspector/ranks/rank_metrics.h"

#include <algorithm>
#include <catch2/catch.hpp>

#include "inspector/widgets/format.h"
#include "tests/random.h"

namespace tessera::inspector {
namespace {

TEST_CASE("one slow rank among 16,384 is visible on 700 pixel rows", "[inspector][ranks]") {
  test::Random random(5);
  constexpr int ranks = 16384, steps = 5;
  std::vector<double> values;
  for (int k = 0; k < ranks * steps; ++k)
    values.push_back(1000 + static_cast<double>(random.below(10)));
  const auto slow = static_cast<std::size_t>(3 * ranks + 12345);
  values[slow] = 5000;
  const auto cells = largest_per_pixel(values, ranks, steps, 700, 900);
  CHECK(*std::max_element(cells.begin(), cells.end()) == 5000);
  CHECK(*std::min_element(cells.begin(), cells.end()) >= 1000);  // every pixel shows a rank
}

TEST_CASE("fewer ranks than pixels fill all of them", "[inspector][ranks]") {
  const auto cells = largest_per_pixel({1, 2, 3, 4, 5, 6}, 3, 2, 10, 7);
  CHECK(std::count(cells.begin(), cells.end(), -1) == 0);
  CHECK(cells.front() == 1);
  CHECK(cells.back() == 6);
}

TEST_CASE("ranks that stand out are grouped with their steps", "[inspector][ranks]") {
  test::Random random(6);
  constexpr int ranks = 256, steps = 4;
  std::vector<double> values;
  for (int k = 0; k < ranks * steps; ++k)
    values.push_back(1000 + static_cast<double>(random.below(5)));
  for (int step = 0; step < steps; ++step) {
    for (int rank = 64; rank < 72; ++rank)
      values[static_cast<std::size_t>(step * ranks + rank)] *= 1.19;
  }
  values[static_cast<std::size_t>(2 * ranks + 200)] *= 1.4;
  const auto odd = outliers(values, ranks, steps);
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

TEST_CASE("noise is no outlier", "[inspector][ranks]") {
  test::Random random(7);
  std::vector<double> values;
  for (int k = 0; k < 1024; ++k) values.push_back(1000 + static_cast<double>(random.below(10)));
  CHECK(outliers(values, 512, 2).empty());
}

TEST_CASE("a colour scale does not blow noise up", "[inspector][ranks]") {
  const RobustScale scale = robust_scale({1000, 1001, 1002, 1003, 1004});
  CHECK(scale.at(1004) < 0.2);
  CHECK(robust_scale({1000, 1000, 1000, 1000, 2000}).at(1000) == 0);
}

TEST_CASE("numbers are written with three digits and a unit", "[inspector][format]") {
  CHECK(format_time(0) == "0 ns");
  CHECK(format_time(1'240'000) == "1.24 ms");
  CHECK(format_time(84'100) == "84.1 µs");
  CHECK(format_time(999'999) == "1.00 ms");
  CHECK(format_bytes(Bytes{404'800'000}) == "405 MB");
  CHECK(format_memory(Bytes{1'288'490'189}) == "1.20 GiB");
  CHECK(format_rate(301e9) == "301 GB/s");
  CHECK(format_flops(8.412e10) == "84.1 GFLOP");
  CHECK(format_percent(0.164) == "16.4 %");
  CHECK(format_count(8'030'261'248) == "8 030 261 248");
  CHECK(format_count(-1234) == "-1 234");
  CHECK(format_count(999) == "999");
  CHECK(format_many(1, "rank") == "1 rank");
  CHECK(format_many(64, "rank") == "64 ranks");
}

}  // namespace
}  // namespace tessera::inspector
