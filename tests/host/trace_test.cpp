// SPDX-License-Identifier: Apache-2.0
// Traces of real runs: what was submitted is told as the simulator tells it, times are aligned.
#include <chrono>

#include "engine/host/clock_alignment.h"
#include "tests/host/recorded_trace.h"
#include "tests/host/thread_ranks.h"
#include "tests/host/training_run.h"
#include "tests/random.h"

namespace tessera {
namespace {

using test::RecordedTrace;
using test::Trained;

Time monotonic() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// Rank r's clock: ahead of the others', and faster.
std::function<Time()> skewed(Rank rank) {
  return [rank, start = monotonic()] {
    const Time elapsed = monotonic() - start;
    return elapsed + elapsed / 10'000 * rank + Time{7'000'000'000} * rank;
  };
}

// `options` of each rank.
std::vector<Status> traced(const test::Run& run, RecordedTrace& sink,
                           const std::function<std::function<Time()>(Rank)>& clock) {
  ThreadWorld world(run.ranks);
  std::vector<Status> statuses(static_cast<std::size_t>(run.ranks));
  std::vector<std::thread> threads;
  for (Rank rank = 0; rank < run.ranks; ++rank) {
    threads.emplace_back([&, rank] {
      HostOptions options{.clock = clock(rank), .aio = {}};
      if (rank == 0) options.sink = &sink;
      auto runtime = make_host_runtime(world.join(rank), options);
      Status& status = statuses[static_cast<std::size_t>(rank)];
      status = runtime.status();
      if (!status.ok()) return;
      Trained trained;
      status = test::train((*runtime)->seam(), run, [&](Rank) -> Trained& { return trained; },
                           [&] { return (*runtime)->finish(); });
    });
  }
  for (std::thread& thread : threads) thread.join();
  return statuses;
}

void simulate(const test::Run& run, RecordedTrace& sink) {
  const test::TestCosts costs;
  auto simulator = sim::LockstepRuntime::create(
      {.world_size = run.ranks, .cost = &costs, .numerics = true, .aio = {}, .sink = &sink});
  REQUIRE(simulator.ok());
  std::vector<Trained> all(static_cast<std::size_t>(run.ranks));
  const Status status =
      test::train((*simulator)->seam(), run,
                  [&](Rank r) -> Trained& { return all[static_cast<std::size_t>(r)]; },
                  [&] { return (*simulator)->finish(); });
  INFO(status.message());
  REQUIRE(status.ok());
}

void check_times(const RecordedTrace& trace, Rank ranks) {
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
  REQUIRE(trace.steps.size() == test::training_run_steps + 1);  // and what looks at the results
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

void check_memory(const RecordedTrace& trace, Rank ranks) {
  for (Rank rank = 0; rank < ranks; ++rank) {
    INFO("rank " << rank);
    REQUIRE(trace.memory_of.count(rank) == 1);
    Time last = 0;
    Bytes allocated{};
    for (const MemorySample& sample : trace.memory_of.at(rank)) {
      CHECK(sample.time >= last);
      last = sample.time;
      allocated += sample.delta;
      CHECK(sample.allocated == allocated);
      CHECK(sample.reserved >= allocated);
    }
  }
}

TEST_CASE("what a real run submits is in its trace as in the simulator's", "[host]") {
  const Rank ranks = GENERATE(1, 2, 4);
  for (const auto& [name, scheme] : test::schemes()) {
    if (ranks == 1 && name == "fully_shard, groups of 2") continue;
    INFO(name << " on " << ranks << " ranks");
    const test::Run run = test::training_run(scheme, ranks);
    RecordedTrace real, simulated;
    test::require_all_ok(traced(run, real, skewed));
    simulate(run, simulated);
    CHECK(real.order == simulated.order);
    CHECK(real.peaks == simulated.peaks);
    CHECK(real.steps.size() == simulated.steps.size());
    CHECK(real.diagnostics.empty());
    check_times(real, ranks);
    check_memory(real, ranks);
  }
}

TEST_CASE("nobody leaves a collective before everybody has come, whatever their clocks say",
          "[host]") {
  const test::Run run = test::training_run(FullyShardOptions{.units = {"pair", "shared"}}, 4);
  RecordedTrace trace;
  test::require_all_ok(traced(run, trace, skewed));
  int met = 0;
  for (const auto& [id, spans] : trace.spans_of) {
    const OpKind kind = trace.ops.at(id).kind;
    if (kind != OpKind::all_gather && kind != OpKind::reduce_scatter) continue;
    Time last = 0;
    for (const auto& [rank, span] : spans) last = std::max(last, span.begin);
    for (const auto& [rank, span] : spans) CHECK(span.ready == last);
    ++met;
  }
  CHECK(met > 10);
}

}  // namespace
}  // namespace tessera
