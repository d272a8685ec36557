// SPDX-License-Identifier: Apache-2.0
// Traces of real runs: what was submitted is told as the simulator tells it, times are aligned.
#include <set>

#include "engine/backends/host/clock_alignment.h"
#include "tests/backends/host/offloaded_runs.h"
#include "tests/backends/host/recorded_trace.h"
#include "tests/backends/host/thread_ranks.h"
#include "tests/backends/host/trace_checks.h"
#include "tests/backends/host/traced_run.h"
#include "tests/random.h"
#include "tests/swap/scratch_folder.h"

namespace tessera {
namespace {

using test::RecordedTrace;
using test::SkewedClocks;
using test::traced;

TEST_CASE("what a real run submits is in its trace as in the simulator's", "[host]") {
  const Rank ranks = GENERATE(1, 2, 4);
  for (const auto& [name, scheme] : test::schemes()) {
    if (ranks == 1 && name.find("groups of 2") != std::string::npos) continue;
    INFO(name << " on " << ranks << " ranks");
    const test::Run run = test::training_run(scheme, ranks);
    RecordedTrace real, simulated;
    test::require_all_ok(traced(run, real, SkewedClocks()));
    test::simulate(run, simulated);
    CHECK(real.order == simulated.order);
    CHECK(real.peaks == simulated.peaks);
    CHECK(real.steps.size() == simulated.steps.size());
    CHECK(real.diagnostics.empty());
    test::check_times(real, ranks);
    test::check_memory(real, ranks);
  }
}

TEST_CASE("each read and write of a file is a span on its drive's lane", "[host][offload]") {
  const test::ScratchFolder folder;
  for (const auto& [name, scheme] : test::offloaded_schemes(folder.path())) {
    INFO(name);
    const test::Run run = test::training_run(scheme, 2);
    RecordedTrace real, simulated;
    test::require_all_ok(traced(run, real, SkewedClocks()));
    test::simulate(run, simulated);
    CHECK(real.order == simulated.order);
    test::check_times(real, run.ranks);
    std::set<std::int32_t> drives;
    for (const std::string& line : real.order) {
      if (line.rfind("stream ", 0) == 0 && line.find(" nvme") != std::string::npos) {
        drives.insert(std::stoi(line.substr(7)));
      }
    }
    CHECK(drives.empty() == (name == "both in host memory"));
    int moves = 0;
    for (const auto& [id, op] : real.ops) {
      if (op.kind != OpKind::copy || !drives.contains(op.stream)) continue;
      ++moves;
      for (const auto& [rank, span] : real.spans_of.at(id)) CHECK(span.end > span.begin);
    }
    CHECK((moves > 0) == !drives.empty());
  }
}

TEST_CASE("nobody leaves a collective before everybody has come, whatever their clocks say",
          "[host]") {
  const test::Run run = test::training_run(FullyShardOptions{.units = {"pair", "shared"}}, 4);
  RecordedTrace trace;
  test::require_all_ok(traced(run, trace, SkewedClocks()));
  int met = 0;
  for (const auto& [id, spans] : trace.spans_of) {
    const OpKind kind = trace.ops.at(id).kind;
    if (kind != OpKind::all_gather && kind != OpKind::reduce_scatter) continue;
    Time last = 0;
    for (const auto& [rank, span] : spans) last = std::max(last, span.begin);
    // A rank's end may say less, as far as its clock drifts within a step.
    for (const auto& [rank, span] : spans) CHECK(last - span.ready < 20'000);
    ++met;
  }
  CHECK(met > 10);
}

TEST_CASE("clocks that are ahead and drift are aligned to what messages prove", "[host]") {
  const auto seed =
      static_cast<std::uint64_t>(GENERATE(range(1, 1 + static_cast<int>(test::generated(50)))));
  INFO("seed " << seed);
  test::Random random(seed);
  const Time ahead = random.below(2'000'000'000) - 1'000'000'000;
  const Time drift_ppm = random.below(101) - 50;
  const auto clock = [&](Time t) { return t + ahead + t / 1'000'000 * drift_ppm; };
  ClockAlignment clocks(2);
  Time now = 1'000'000;
  for (int k = 0; k < 16; ++k) {
    const Time sent = now;
    const Time seen = sent + 5'000 + random.below(100'000);
    now = seen + 5'000 + random.below(100'000);
    clocks.exchange(1, sent, clock(seen), now);
  }
  Time last = std::numeric_limits<Time>::min();
  Time worst = 0;
  int backwards = 0;
  for (int step = 0; step < 200; ++step) {
    const Time until = now + 100'000'000;
    // Both enter a collective, and leave it after the later one has come.
    Time lowest = std::numeric_limits<Time>::min();
    Time highest = std::numeric_limits<Time>::max();
    for (Time t = now; t < until; t += 10'000'000) {
      const Time begin[2] = {t + random.below(50'000), t + random.below(50'000)};
      const Time met = std::max(begin[0], begin[1]);
      const Time end[2] = {met + random.below(50'000), met + random.below(50'000)};
      lowest = std::max(lowest, clock(begin[1]) - end[0]);
      highest = std::min(highest, clock(end[1]) - begin[0]);
    }
    clocks.bound(1, lowest, highest, clock(until));
    for (Time t = now; t < until; t += 1'000'000) {
      const Time aligned = clocks.aligned(1, clock(t));
      backwards += aligned < last;
      worst = std::max(worst, std::abs(aligned - t));
      last = aligned;
    }
    now = until;
  }
  CHECK(backwards == 0);
  CHECK(worst < 100'000);
}

TEST_CASE("without a clock on every rank there is no trace, and nobody waits for it", "[host]") {
  RecordedTrace sink;
  const auto statuses = test::on_threads(2, {.clock = {}, .aio = {}, .sink = &sink},
                                         [](ProcessRuntime&, Rank) { return Status(); });
  CHECK(statuses[0].message() ==
        "rank 0 has no clock, but a trace needs times of all ranks: set HostOptions::clock");
}

TEST_CASE("a run that fails ends its trace with the reason and what was under way", "[host]") {
  RecordedTrace sink;
  const SkewedClocks clocks{1'000'000};
  std::atomic<bool> over{false};
  struct Says {
    std::atomic<bool>& over;
    bool mine;
    ~Says() {
      if (mine) over = true;
    }
  };
  const auto statuses = test::on_threads(
      2, {.clock = clocks(0), .aio = {}, .deadline = 500'000'000, .sink = &sink},
      [&over](ProcessRuntime& host, Rank rank) -> Status {
        const Says at_the_end{over, rank == 0};
        Runtime& runtime = host;
        TESSERA_ASSIGN(const auto stream, runtime.create_stream("comm", StreamRole::communication));
        TESSERA_ASSIGN(const auto all, RankGroups::strided(2, 2));
        TESSERA_ASSIGN(const auto world, runtime.create_communicator(all, "all"));
        TESSERA_ASSIGN(const auto buffer, runtime.allocate({.bytes = Bytes{4},
                                                            .stream = stream,
                                                            .where = runtime.world(),
                                                            .cause = {},
                                                            .name = "x"}));
        const View x = View::whole(buffer, DType::float32, Numel{1});
        Op op{.stream = stream,
              .where = runtime.world(),
              .after = {},
              .cause = {.unit = "here"},
              .what = Compute{.cost = {}, .reads = {}, .writes = {x}, .body = {}}};
        TESSERA_TRY(runtime.submit(op).status());
        while (rank == 1 && !over) std::this_thread::yield();
        if (rank == 1) return {};
        op.what = AllReduce{world, x, x, Reduction::sum};
        TESSERA_ASSIGN(const auto done, runtime.submit(op));
        return runtime.wait(done);
      });
  CHECK(statuses[0].code() == Code::timed_out);
  REQUIRE(sink.diagnostics.size() == 1);
  CHECK(sink.diagnostics[0] == "timed_out: " + statuses[0].message());
  REQUIRE(sink.spans_of.size() == 2);  // the work, and the collective that nobody joined
  CHECK(sink.spans_of.at(1).at(0).end - sink.spans_of.at(1).at(0).begin > 10'000'000);
}

}  // namespace
}  // namespace tessera
