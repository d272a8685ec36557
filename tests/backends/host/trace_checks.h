// SPDX-License-Identifier: Apache-2.0
// Checks that hold for the trace of every training run, on every backend.
#pragma once

#include <catch2/catch.hpp>
#include <vector>

#include "tests/backends/host/recorded_trace.h"
#include "tests/backends/host/training_run.h"

namespace tessera::test {

/// Records the same run in the simulator.
inline void simulate(const Run& run, RecordedTrace& sink) {
  const TestCosts costs;
  auto simulator = sim::LockstepRuntime::create({.world_size = run.ranks,
                                                 .cost = &costs,
                                                 .numerics = true,
                                                 .aio = {},
                                                 .sink = &sink,
                                                 .recorded_ranks = {0}});
  REQUIRE(simulator.ok());
  std::vector<Trained> all(static_cast<std::size_t>(run.ranks));
  const Status status = train(
      **simulator, run, [&](Rank r) -> Trained& { return all[static_cast<std::size_t>(r)]; },
      [&] { return (*simulator)->finish(); });
  INFO(status.message());
  REQUIRE(status.ok());
}

inline void check_times(const RecordedTrace& trace, Rank ranks, int steps = training_run_steps) {
  std::map<std::pair<Rank, std::int32_t>, Time> last;  // by rank and stream
  for (const auto& [id, op] : trace.ops) {
    INFO("op " << id << " " << name_of(op.kind));
    REQUIRE(trace.spans_of.count(id) == 1);
    for (const auto& [rank, span] : trace.spans_of.at(id)) {
      Time& before = last[{rank, op.stream}];
      CHECK(span.begin >= before);
      CHECK(span.ready >= span.begin);
      CHECK(span.end >= span.ready);
      before = span.end;
    }
  }
  REQUIRE(trace.steps.size() ==
          static_cast<std::size_t>(steps) + 1);  // and what looks at the results
  std::vector<Time> end(static_cast<std::size_t>(ranks));
  for (const auto& step : trace.steps) {
    REQUIRE(step.size() == static_cast<std::size_t>(ranks));
    for (std::size_t r = 0; r < step.size(); ++r) {
      INFO("rank " << r);
      CHECK(step[r].begin == end[r]);
      end[r] = step[r].end;
      CHECK(step[r].compute >= 0);
      CHECK(step[r].exposed >= 0);
      CHECK(step[r].blocking >= 0);
      CHECK(step[r].compute + step[r].blocking <= step[r].end - step[r].begin);
    }
  }
}

inline void check_memory(const RecordedTrace& trace, Rank ranks) {
  for (Rank rank = 0; rank < ranks; ++rank) {
    INFO("rank " << rank);
    REQUIRE(trace.memory_of.count(rank) == 1);
    Time last = 0;
    Bytes allocated{};
    for (const MemorySample& sample : trace.memory_of.at(rank)) {
      CHECK(sample.time >= last);
      last = sample.time;
      if (is_on_device(sample.memory_class)) allocated += sample.delta;
      CHECK(sample.allocated == allocated);
      CHECK(sample.reserved >= allocated);
    }
  }
}

}  // namespace tessera::test
