// SPDX-License-Identifier: Apache-2.0
#include "engine/tracing/step_accounts.h"

#include <catch2/catch.hpp>

#include "tests/random.h"
#include "tests/sim/vector_sink.h"

namespace tessera {
namespace {

constexpr std::size_t ranks = 3;
constexpr Time length = 6000;

Clock clock_of(const std::vector<Time>& times) {
  static ClockPool pool(ranks);
  auto data = pool.take();
  data->times() = times;
  const ClockBounds bounds = clock_bounds(data->data(), ranks);
  data->lowest = bounds.lowest;
  data->highest = bounds.highest;
  return data;
}

// What the compute stream or one of communication did in a step, nanosecond by nanosecond.
struct Timeline {
  std::vector<Time> now = std::vector<Time>(ranks);
  std::vector<std::vector<bool>> busy{ranks, std::vector<bool>(length)};

  // The next interval, on each rank after the last one.
  std::pair<Clock, Clock> next(test::Random& random) {
    std::vector<Time> begin = now;
    for (std::size_t r = 0; r < ranks; ++r) {
      begin[r] = std::min(length, begin[r] + random.below(12));
      now[r] = std::min(length, begin[r] + random.below(20));
      for (Time t = begin[r]; t < now[r]; ++t) busy[r][static_cast<std::size_t>(t)] = true;
    }
    return {clock_of(begin), clock_of(now)};
  }
};

// The exposed time of each rank in what `timelines` say; the last one is of compute.
std::vector<Time> exposed_in(const std::vector<Timeline>& timelines) {
  std::vector<Time> out(ranks);
  for (std::size_t r = 0; r < ranks; ++r) {
    for (std::size_t t = 0; t < length; ++t) {
      bool any = false;
      for (std::size_t s = 0; s + 1 < timelines.size(); ++s) any |= timelines[s].busy[r][t];
      out[r] += timelines.back().busy[r][t] && any ? 1 : 0;
    }
  }
  return out;
}

std::vector<Time> exposed_of(StepAccounts& accounts) {
  test::VectorSink trace;
  const std::vector<Bytes> none(ranks);
  accounts.close(0, clock_of(std::vector<Time>(ranks, length)), none, none, &trace);
  const auto exposed = trace.steps.at(0).exposed;
  return {exposed.begin(), exposed.end()};
}

TEST_CASE("exposed is each moment in which compute stands still and any stream communicates") {
  for (std::uint64_t seed = 0; seed < test::generated(200); ++seed) {
    INFO("seed " << seed);
    test::Random random(seed);
    StepAccounts accounts(ranks);
    std::vector<Timeline> timelines(4);
    for (std::size_t i = 0; i < 60; ++i) {
      // Each stream is known when times begin to be forgotten.
      const auto which = i < 3 ? i : static_cast<std::size_t>(random.below(4));
      const auto [begin, end] = timelines[which].next(random);
      if (which == 3)
        accounts.gap(begin, end, random.chance(50));
      else
        accounts.collective(static_cast<std::int32_t>(which), begin, end);
    }
    CHECK(exposed_of(accounts) == exposed_in(timelines));
  }
}

// As in data parallelism: a slow rank's gaps lie where a fast one's were long ago, and collectives
// are as many as were submitted in between.
TEST_CASE("ranks that drift apart by many collectives are each held against their own") {
  for (std::uint64_t seed = 0; seed < test::generated(30); ++seed) {
    INFO("seed " << seed);
    test::Random random(seed);
    StepAccounts accounts(ranks);
    std::vector<Timeline> timelines(2);
    for (std::size_t r = 0; r < ranks; ++r) {
      timelines[1].now[r] = static_cast<Time>(r) * length / 4;
    }
    for (int i = 0; i < 400; ++i) {
      const auto [begin, end] = timelines[0].next(random);
      accounts.collective(0, begin, end);
    }
    for (int i = 0; i < 100; ++i) {
      const auto [begin, end] = timelines[1].next(random);
      accounts.gap(begin, end, random.chance(50));
    }
    CHECK(exposed_of(accounts) == exposed_in(timelines));
  }
}

}  // namespace
}  // namespace tessera
