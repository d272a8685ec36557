// SPDX-License-Identifier: Apache-2.0
#include "engine/tracing/step_accounts.h"

#include <catch2/catch.hpp>

#include "tests/random.h"
#include "tests/sim/vector_sink.h"

namespace tessera {
namespace {

constexpr std::size_t ranks = 3;
constexpr Time length = 400;

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

TEST_CASE("exposed is each moment in which compute stands still and any stream communicates") {
  for (std::uint64_t seed = 0; seed < test::generated(200); ++seed) {
    INFO("seed " << seed);
    test::Random random(seed);
    StepAccounts accounts(ranks);
    Timeline compute;
    std::vector<Timeline> streams(3);
    for (std::size_t i = 0; i < 60; ++i) {
      // Each stream is known when times begin to be forgotten.
      const auto which = i < 3 ? i : static_cast<std::size_t>(random.below(4));
      Timeline& timeline = which == 3 ? compute : streams[which];
      const auto [begin, end] = timeline.next(random);
      if (which == 3)
        accounts.gap(begin, end, random.chance(50));
      else
        accounts.collective(static_cast<std::int32_t>(which), begin, end);
    }
    test::VectorSink trace;
    const std::vector<Bytes> none(ranks);
    accounts.close(0, clock_of(std::vector<Time>(ranks, length)), none, none, &trace);
    for (std::size_t r = 0; r < ranks; ++r) {
      Time expected = 0;
      for (std::size_t t = 0; t < length; ++t) {
        const bool any = streams[0].busy[r][t] || streams[1].busy[r][t] || streams[2].busy[r][t];
        expected += compute.busy[r][t] && any ? 1 : 0;
      }
      CHECK(trace.steps.at(0).exposed[r] == expected);
    }
  }
}

}  // namespace
}  // namespace tessera
