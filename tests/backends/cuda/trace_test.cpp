// SPDX-License-Identifier: Apache-2.0
// Traces of runs on fake GPUs: what was submitted is told as the simulator tells it, times are the
// devices' and tracing waits for nobody.
#include "tests/backends/cuda/cuda_ranks.h"
#include "tests/backends/host/trace_checks.h"

namespace tessera {
namespace {

using test::RecordedTrace;
using test::StandIn;
using test::StandInOptions;
using test::Trained;

std::vector<Trained> traced(StandIn& world, const test::Run& run, TraceSink* sink,
                            bool kernels = false) {
  std::vector<Trained> trained(static_cast<std::size_t>(run.ranks));
  const auto statuses = test::run_on(
      world,
      [&](ProcessRuntime& runtime, Rank rank) {
        return test::train(
            runtime, run, [&](Rank) -> Trained& { return trained[static_cast<std::size_t>(rank)]; },
            [&] { return runtime.finish(); });
      },
      {.sink = sink, .profile_nccl = kernels});
  test::require_clean({statuses, world.reports(), world.leaks()});
  return trained;
}

TEST_CASE("what a run on GPUs submits is in its trace as in the simulator's", "[cuda]") {
  const Rank ranks = GENERATE(1, 2, 4);
  const std::uint64_t seed = GENERATE(0, 3);
  for (const auto& [name, scheme] : test::schemes()) {
    if (ranks == 1 && name.find("groups of 2") != std::string::npos) continue;
    INFO(name << " on " << ranks << " ranks, seed " << seed);
    const test::Run run = test::training_run(scheme, ranks);
    RecordedTrace real, simulated;
    StandIn world({.ranks = ranks, .seed = seed, .look = 2'000});
    traced(world, run, &real);
    test::simulate(run, simulated);
    CHECK(real.order == simulated.order);
    CHECK(real.peaks == simulated.peaks);
    CHECK(real.diagnostics.empty());
    test::check_times(real, ranks);
    test::check_memory(real, ranks);
  }
}

// Which kernels of collectives of all ranks the trace does not know.
std::vector<std::string> lost_kernels(const RecordedTrace& trace, Rank ranks) {
  std::vector<std::string> lost;
  for (const auto& [id, op] : trace.ops) {
    const auto known = trace.kernels.find(id);
    for (Rank rank = 0; is_collective(op.kind) && rank < ranks; ++rank) {
      const bool told = known != trace.kernels.end() && known->second.count(rank) != 0;
      if (!told) lost.push_back(fmt::format("op {} on rank {}", id, rank));
    }
  }
  return lost;
}

TEST_CASE("what NCCL's profiler says of a collective and its kernels is in the trace", "[cuda]") {
  const Rank ranks = GENERATE(2, 3);
  const bool only_nccl = GENERATE(false, true);
  const Time late = GENERATE(0, 300'000);  // a step takes less
  INFO(ranks << " ranks, only NCCL " << only_nccl << ", kernels " << late << " ns late");
  test::Run run = test::training_run(FullyShardOptions{.units = {"pair"}}, ranks);
  run.steps = 20;
  RecordedTrace trace;
  StandIn world({.ranks = ranks,
                 .only_nccl = only_nccl,
                 .profiled = "RING SIMPLE, 2 channels",
                 .profiler_late = late,
                 .look = 2'000});
  traced(world, run, &trace, /*kernels=*/true);
  int collectives = 0;
  for (const auto& [id, op] : trace.ops) {
    collectives += is_collective(op.kind) ? 1 : 0;
    CHECK(op.algorithm == (is_collective(op.kind) ? "RING SIMPLE, 2 channels" : ""));
    if (!is_collective(op.kind)) CHECK(trace.kernels.count(id) == 0);
  }
  CHECK(collectives > 5);
  CHECK(lost_kernels(trace, ranks) == std::vector<std::string>{});
  for (const auto& [op, times] : trace.kernels) {
    for (const auto& [rank, time] : times) CHECK(time == test::kernel_time(rank));
  }
}

TEST_CASE("a rank whose profiler is silent is missing, and nobody else", "[cuda]") {
  const test::Run run = test::training_run(FullyShardOptions{.units = {"pair"}}, 3);
  RecordedTrace trace;
  StandIn world({.ranks = 3, .profiled = "RING", .profiler_silent = 1, .look = 2'000});
  traced(world, run, &trace, /*kernels=*/true);
  const auto lost = lost_kernels(trace, run.ranks);
  CHECK(lost.size() == trace.kernels.size());
  for (const std::string& kernel : lost) CHECK(kernel.ends_with("on rank 1"));
}

TEST_CASE("without a wish for times of kernels there are none", "[cuda]") {
  const test::Run run = test::training_run(FullyShardOptions{.units = {"pair"}}, 2);
  RecordedTrace trace;
  StandIn world({.ranks = 2, .profiled = "RING", .look = 2'000});
  traced(world, run, &trace);
  CHECK(trace.kernels.empty());
}

TEST_CASE("a trace that ends early has the kernels that rank 0 knows of", "[cuda]") {
  const test::Run run = test::training_run(FullyShardOptions{.units = {"pair"}}, 2);
  RecordedTrace trace;
  StandIn world({.ranks = 2, .profiled = "RING", .look = 2'000});
  const auto statuses = test::run_on(world,
                                     [&](ProcessRuntime& runtime, Rank) {
                                       test::Trained trained;
                                       return test::train(
                                           runtime, run, [&](Rank) -> Trained& { return trained; },
                                           [&]() -> Status {
                                             runtime.give_up(Status(Code::cancelled, "enough"));
                                             return Status(Code::cancelled, "enough");
                                           });
                                     },
                                     {.sink = &trace, .profile_nccl = true});
  CHECK_FALSE(statuses[0].ok());
  CHECK(trace.diagnostics.size() == 1);
  std::size_t of_rank_0 = 0;
  for (const auto& [op, times] : trace.kernels) of_rank_0 += times.count(0);
  CHECK(of_rank_0 > 5);
  CHECK(of_rank_0 == trace.kernels.size());
}

struct Counted {
  std::vector<Trained> trained;
  std::vector<int> marks, waits;  // by rank
};

Counted counted(const test::Run& run, TraceSink* sink) {
  StandIn world({.ranks = run.ranks, .look = 2'000});
  Counted all{.trained = traced(world, run, sink), .marks = {}, .waits = {}};
  for (Rank rank = 0; rank < run.ranks; ++rank) {
    all.marks.push_back(world.marks(rank));  // every wait of the host looks at one
    all.waits.push_back(world.uses(test::Call::stream_wait_event, rank));
  }
  return all;
}

TEST_CASE("tracing waits for nothing that a run without it does not wait for", "[cuda]") {
  for (const auto& [name, scheme] : test::schemes()) {
    INFO(name);
    const test::Run run = test::training_run(scheme, 2);
    RecordedTrace trace;
    const Counted with = counted(run, &trace);
    const Counted without = counted(run, nullptr);
    CHECK(with.marks == without.marks);
    CHECK(with.waits == without.waits);
    for (std::size_t r = 0; r < 2; ++r) {
      CHECK(with.trained[r].losses == without.trained[r].losses);
      CHECK(with.trained[r].shards == without.trained[r].shards);
    }
  }
}

TEST_CASE("times of the device are the host's, whatever its own clock says", "[cuda]") {
  StandIn world({.seed = 3, .look = 2'000});
  const auto statuses = world.run([&](std::unique_ptr<CudaPeers> peers) -> Status {
    const CudaModule module = StandIn::module();
    const auto host = [&world] { return world.now(); };
    DeviceClock clock(module.cuda, host);
    const auto wait = [&](const std::function<Result<bool>()>& done) -> Status {
      while (true) {
        TESSERA_ASSIGN(const bool over, done());
        if (over) return {};
        peers->idle();
      }
    };
    TESSERA_TRY(clock.open(wait));
    EventPool events(module.cuda, EventPool::Kind::timed);
    CudaStream stream = nullptr;
    module.cuda.stream_create(&stream, 0);
    Time worst = 0;
    for (int k = 0; k < 2'000; ++k) {
      const Time before = host();
      TESSERA_ASSIGN(const CudaEvent event, events.record(stream));
      TESSERA_TRY(wait([&]() -> Result<bool> { return module.cuda.event_query(event) == 0; }));
      const Time after = host();
      TESSERA_ASSIGN(const Time happened, clock.time_of(event));
      worst = std::max({worst, before - happened, happened - after});
      events.give_back(event);
      TESSERA_TRY(clock.tick());
      world.pass(5'000'000);
    }
    module.cuda.stream_destroy(stream);
    CHECK(worst < 10'000);
    return {};
  });
  test::require_clean({statuses, world.reports(), world.leaks()});
}

}  // namespace
}  // namespace tessera
