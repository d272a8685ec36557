// SPDX-License-Identifier: Apache-2.0
// A training run on threads, whose rank 0 has a sink, by clocks that repeat.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "tests/backends/host/thread_ranks.h"
#include "tests/backends/host/training_run.h"

namespace tessera::test {

// One time for all ranks, in which a microsecond passes whenever somebody looks. Rank r's clock is
// ahead of it, and faster.
struct SkewedClocks {
  Time look = 1'000;
  std::shared_ptr<std::atomic<Time>> now = std::make_shared<std::atomic<Time>>(0);

  std::function<Time()> operator()(Rank rank) const {
    return [rank, step = look, time = now] {
      const Time elapsed = *time += step;
      return elapsed + elapsed / 10'000 * rank + Time{7'000'000'000} * rank;
    };
  }
};

using ClockOfRank = std::function<std::function<Time()>(Rank)>;

/// `sink_of`: null where a rank has none.
inline std::vector<Status> traced(const Run& run, const std::function<TraceSink*(Rank)>& sink_of,
                                  bool own, const ClockOfRank& clock) {
  ThreadWorld world(run.ranks);
  std::vector<Status> statuses(static_cast<std::size_t>(run.ranks));
  std::vector<std::thread> threads;
  for (Rank rank = 0; rank < run.ranks; ++rank) {
    threads.emplace_back([&, rank] {
      const HostOptions options{
          .clock = clock(rank), .aio = {}, .sink = sink_of(rank), .own_trace = own};
      auto runtime = make_host_runtime(world.join(rank), options);
      Status& status = statuses[static_cast<std::size_t>(rank)];
      status = runtime.status();
      if (!status.ok()) return;
      Trained trained;
      status = train(
          **runtime, run, [&](Rank) -> Trained& { return trained; },
          [&] { return (*runtime)->finish(); });
    });
  }
  for (std::thread& thread : threads) thread.join();
  return statuses;
}

inline std::vector<Status> traced(const Run& run, TraceSink& sink, const ClockOfRank& clock) {
  return traced(
      run, [&](Rank rank) { return rank == 0 ? &sink : nullptr; }, false, clock);
}

/// Each rank into a trace of its own.
template <class Trace>
std::vector<Status> traced_alone(const Run& run, std::vector<Trace>& traces,
                                 const ClockOfRank& clock) {
  return traced(
      run, [&](Rank rank) { return &traces[static_cast<std::size_t>(rank)]; }, true, clock);
}

}  // namespace tessera::test
