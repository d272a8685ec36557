// SPDX-License-Identifier: Apache-2.0
#include "tessera/analysis/metrics.h"

#include <catch2/catch.hpp>
#include <limits>

#include "tessera/analysis/median.h"
#include "tests/random.h"

namespace tessera::analysis {
namespace {

MetricTable table(int ranks, int steps, const std::vector<std::int64_t>& values) {
  MetricTable made(Metric::compute, ranks);
  for (int step = 0; step < steps; ++step) {
    made.add_step(std::span(values).subspan(static_cast<std::size_t>(step * ranks),
                                            static_cast<std::size_t>(ranks)));
  }
  return made;
}

std::vector<std::int64_t> noise(std::uint64_t seed, int count) {
  test::Random random(seed);
  std::vector<std::int64_t> values;
  for (int k = 0; k < count; ++k) values.push_back(1000 + random.below(5));
  return values;
}

// Uniform within +-5 % of 1 ms, as jitter of a simulation.
std::vector<std::int64_t> jittered(std::uint64_t seed, int count) {
  test::Random random(seed);
  std::vector<std::int64_t> values;
  for (int k = 0; k < count; ++k) values.push_back(950'000 + random.below(100'001));
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

TEST_CASE("the middle of a step of very many ranks is the median of them all",
          "[analysis][ranks]") {
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    INFO("seed=" << seed);
    test::Random random(seed);
    const int ranks = static_cast<int>(1000 + random.below(200));
    const std::int64_t apart = std::int64_t{1} << random.below(34);
    std::vector<std::int64_t> values;
    for (int k = 0; k < ranks; ++k) {
      const bool usual = random.chance(static_cast<int>(seed % 100));
      values.push_back(usual ? 5'000 : random.below(apart));
    }
    const MetricTable made = table(ranks, 1, values);
    CHECK(made.range(0).median == median(values));
    CHECK(made.step(0) == values);
  }
}

TEST_CASE("what stands out does not depend on which ranks are beside it", "[analysis][ranks]") {
  for (const int ranks : {15, 16, 17, 33, 40}) {
    for (const std::int64_t far : {std::int64_t{0}, std::int64_t{1} << 40}) {  // wide or narrow
      const int odd = ranks - 1;
      auto values = jittered(static_cast<std::uint64_t>(ranks), ranks * 200);
      for (int step = 50; step < 150; ++step) {
        auto& value = values[static_cast<std::size_t>(step * ranks + odd)];
        value = value * 120 / 100;
      }
      values[static_cast<std::size_t>(7 * ranks)] += far;
      const auto found = outliers(table(ranks, 200, values));
      INFO(ranks << " ranks, " << found.size() << " found");
      REQUIRE(found.size() == (far == 0 ? 1 : 2));
      CHECK(found.back().first_rank == odd);
      CHECK(found.back().excess == Approx(0.2).margin(0.02));
      if (far > 0) CHECK(found.front().first_rank == 0);
    }
  }
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

TEST_CASE("thousands of jittered steps of like ranks have no outlier", "[analysis][ranks]") {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    INFO("seed=" << seed);
    CHECK(outliers(table(8, 3000, jittered(seed, 8 * 3000))).empty());
  }
}

TEST_CASE(
    "a rank that is a little slow in every step is found under larger jitter, with its steps "
    "counted",
    "[analysis][ranks]") {
  auto values = jittered(3, 8 * 500);
  for (int step = 0; step < 500; ++step) {
    auto& value = values[static_cast<std::size_t>(step * 8 + 5)];
    value = value * 103 / 100;
  }
  const auto odd = outliers(table(8, 500, values));
  REQUIRE(odd.size() == 1);
  CHECK(odd[0].first_rank == 5);
  CHECK(odd[0].last_rank == 5);
  CHECK(odd[0].excess == Approx(0.03).margin(0.01));
  CHECK(odd[0].count > 300);
  CHECK(odd[0].count <= odd[0].last_step - odd[0].first_step + 1);
  CHECK(odd[0].difference == Approx(30'000).margin(10'000));
}

TEST_CASE("a rank that is slow for a while is found with when", "[analysis][ranks]") {
  auto values = jittered(4, 16 * 1000);
  for (int step = 600; step < 700; ++step) {
    auto& value = values[static_cast<std::size_t>(step * 16 + 2)];
    value = value * 120 / 100;
  }
  const auto odd = outliers(table(16, 1000, values));
  REQUIRE(odd.size() == 1);
  CHECK(odd[0].first_rank == 2);
  CHECK(odd[0].first_step >= 500);
  CHECK(odd[0].last_step <= 800);
}

TEST_CASE("a single step of a single rank that takes long is no slow rank", "[analysis][ranks]") {
  auto values = jittered(5, 8 * 300);
  values[100 * 8 + 6] *= 50;
  const auto odd = outliers(table(8, 300, values));
  REQUIRE(odd.size() == 1);
  CHECK(odd[0].first_step == 100);
  CHECK(odd[0].last_step == 100);
  CHECK(odd[0].count == 1);
}

TEST_CASE("ranks that always differ a little are as they are, a slow one among them is odd",
          "[analysis][ranks]") {
  constexpr int own[] = {965, 1000, 998, 1025, 983, 1003, 1012, 990};  // of a thousand
  auto values = jittered(6, 8 * 300);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = values[i] * own[i % 8] / 1000;
  CHECK(outliers(table(8, 300, values)).empty());
  for (std::size_t i = 6; i < values.size(); i += 8) values[i] = values[i] * 115 / 100;
  const auto odd = outliers(table(8, 300, values));
  REQUIRE(odd.size() == 1);
  CHECK(odd[0].first_rank == 6);
}

TEST_CASE("how much slower one of a few GPUs may be is known from other machines",
          "[analysis][ranks]") {
  CHECK(usual_excess(table(8, 4, noise(1, 8 * 4))) == Approx(0.073).margin(0.005));
  CHECK(usual_excess(table(512, 4, noise(1, 512 * 4))) < 0.03);
}

TEST_CASE("of two ranks none is the odd one, and small parts of a step are no matter",
          "[analysis][ranks]") {
  CHECK(outliers(table(2, 2, {100, 200, 100, 200})).empty());
  MetricTable wait = table(4, 2, {10, 10, 10, 20, 10, 10, 10, 20});
  wait.unit = 100'000;
  CHECK(outliers(wait).empty());
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

TEST_CASE("what neither compute nor a collective explains is the host's, or of files",
          "[analysis][metrics]") {
  storage::RankSteps steps;
  steps.ranks = 4;
  steps.steps = 1;
  steps.begin = {0, 0, 0, 0};
  steps.end = {100, 100, 100, 100};
  steps.compute = {60, 90, std::numeric_limits<Time>::max(), std::numeric_limits<Time>::min()};
  steps.exposed = {30, 30, std::numeric_limits<Time>::min(), 100};
  const MetricTable table = table_of(steps, Metric::other);
  CHECK(table.step(0) == std::vector<std::int64_t>{10, 0, 0, 0});
  CHECK(table.unit > 0);
}

TEST_CASE("parts of that are told of recorded ranks by their spans", "[analysis][metrics]") {
  const std::string folder = std::string(TESSERA_SOURCE_DIR) + "/traces/";
  const auto trace = Trace::open(folder + "offload-nvme.tessera");
  REQUIRE(trace.ok());
  const auto table = [&](Metric metric) {
    CHECK(has_metric(*trace, metric));
    auto found = table_of(*trace, metric);
    REQUIRE(found.ok());
    REQUIRE(found->steps() == trace->step_count());
    CHECK(found->unit > 0);
    return std::move(found).value();
  };
  const MetricTable all = table(Metric::other), cpu = table(Metric::cpu),
                    files = table(Metric::files), host = table(Metric::host);
  for (std::int32_t step = 0; step < trace->step_count(); ++step) {
    CHECK(cpu.known(step, 0));
    CHECK_FALSE(cpu.known(step, 1));  // it was not recorded
    CHECK(cpu.at(step, 1) == cpu.at(step, 0));
    // Nearly all of this run is the optimizer on the host and its files.
    CHECK(cpu.at(step, 0) > 0);
    CHECK(files.at(step, 0) > cpu.at(step, 0));
    const std::int64_t sum = cpu.at(step, 0) + files.at(step, 0) + host.at(step, 0);
    CHECK(sum <= all.at(step, 0));
    CHECK(sum > all.at(step, 0) / 100 * 95);  // the rest are copies
  }
  const auto gathers = Trace::open(folder + "scheme-fully_shard.tessera");
  REQUIRE(gathers.ok());
  CHECK(has_metric(*gathers, Metric::other));
  CHECK_FALSE(has_metric(*gathers, Metric::files));
  const auto imported = Trace::open(folder + "torch-fsdp2.tessera");
  REQUIRE(imported.ok());
  CHECK_FALSE(has_metric(*imported, Metric::cpu));
}

}  // namespace
}  // namespace tessera::analysis
