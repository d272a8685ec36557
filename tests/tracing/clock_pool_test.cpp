// SPDX-License-Identifier: Apache-2.0
#include "engine/tracing/clock_pool.h"

#include <catch2/catch.hpp>

#include "tests/random.h"

namespace tessera {
namespace {

constexpr std::size_t clock_ranks = 1500;  // more than are worked out at once

std::vector<std::uint32_t> keys() {
  std::vector<std::uint32_t> keys;
  for (std::uint32_t r = 0; r < clock_ranks; ++r) keys.push_back(hash32(r));
  return keys;
}

// As the jitter is described.
Time duration(const ClockStep& step, std::size_t rank) {
  const std::uint64_t u = hash32(step.rank_key[rank] ^ step.jitter.op_key);
  return step.jitter.base + static_cast<Time>(((step.jitter.width * u) >> 32) << step.jitter.shift);
}

Jitter random_jitter(test::Random& random) {
  Jitter jitter{.base = random.below(1'000'000),
                .op_key = static_cast<std::uint32_t>(random.next())};
  if (random.chance(80))
    jitter.width = static_cast<std::uint32_t>(random.next() >> random.below(63));
  if (random.chance(20)) jitter.shift = static_cast<int>(random.below(4));
  return jitter;
}

TEST_CASE("clocks that follow one another have the times of all steps, whoever asks when",
          "[clock]") {
  const std::vector<std::uint32_t> rank_keys = keys();
  for (std::uint64_t seed = 0; seed < test::generated(40); ++seed) {
    INFO("seed " << seed);
    test::Random random(seed);
    ClockPool pool(clock_ranks);
    std::vector<Clock> clocks{pool.same(random.below(1000))};
    std::vector<std::vector<Time>> expected{std::vector<Time>(clock_ranks, clocks[0]->lowest)};
    for (int k = 0; k < 60; ++k) {
      const auto from = random.chance(80)
                            ? clocks.size() - 1
                            : static_cast<std::size_t>(random.below(std::ssize(clocks)));
      const ClockStep step{random_jitter(random), rank_keys.data()};
      std::vector<Time> times = expected[from];
      for (std::size_t r = 0; r < clock_ranks; ++r) times[r] += duration(step, r);
      clocks.push_back(pool.after(clocks[from], step));
      expected.push_back(std::move(times));
      if (random.chance(20)) {
        const auto asked = static_cast<std::size_t>(random.below(std::ssize(clocks)));
        REQUIRE(clocks[asked]->times() == expected[asked]);
      }
      if (random.chance(5)) clocks.front() = clocks.back(), expected.front() = expected.back();
    }
    for (std::size_t k = 0; k < clocks.size(); ++k) {
      const ClockBounds bounds = clock_bounds(expected[k].data(), clock_ranks);
      CHECK(clocks[k]->lowest <= bounds.lowest);
      CHECK(clocks[k]->highest >= bounds.highest);
      REQUIRE(clocks[k]->times() == expected[k]);
    }
  }
}

TEST_CASE("a clock keeps what it follows, also without its pool", "[clock]") {
  const std::vector<std::uint32_t> rank_keys = keys();
  const ClockStep step{{.base = 5}, rank_keys.data()};
  Clock last;
  {
    ClockPool pool(clock_ranks);
    last = pool.same(7);
    for (int k = 0; k < 100; ++k) last = pool.after(last, step);
  }
  CHECK(last->times() == std::vector<Time>(clock_ranks, 507));
}

}  // namespace
}  // namespace tessera
