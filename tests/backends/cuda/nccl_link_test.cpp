// SPDX-License-Identifier: Apache-2.0
// Ranks that nothing but NCCL connects, as torchrun starts them: their times reach rank 0's trace.
#include "engine/backends/cuda/nccl_link.h"

#include "tests/backends/cuda/every_call.h"
#include "tests/backends/host/trace_checks.h"

namespace tessera {
namespace {

using test::Call;
using test::RecordedTrace;
using test::StandIn;

Status train_on(ProcessRuntime& runtime, const test::Run& run) {
  test::Trained trained;
  return test::train(
      runtime, run, [&](Rank) -> test::Trained& { return trained; },
      [&] { return runtime.finish(); });
}

void check_trace(const test::Run& run, const test::StandInOptions& options) {
  RecordedTrace real, simulated;
  StandIn world(options);
  const auto statuses =
      test::run_on(world, [&](ProcessRuntime& runtime, Rank) { return train_on(runtime, run); },
                   {.sink = &real});
  test::require_clean({statuses, world.reports(), world.leaks()});
  test::simulate(run, simulated);
  CHECK(real.order == simulated.order);
  CHECK(real.peaks == simulated.peaks);
  CHECK(real.diagnostics.empty());
  test::check_times(real, run.ranks, run.steps);
  test::check_memory(real, run.ranks);
}

TEST_CASE("ranks that only NCCL connects have the simulator's trace", "[cuda]") {
  const Rank ranks = GENERATE(2, 3);
  const int nccl = GENERATE(22809, 21805);
  for (const auto& [name, scheme] : test::schemes()) {
    if (ranks % 2 != 0 && name.find("groups of 2") != std::string::npos) continue;
    INFO(name << " on " << ranks << " ranks, NCCL " << nccl);
    check_trace(
        test::training_run(scheme, ranks),
        {.ranks = ranks, .seed = 5, .only_nccl = true, .nccl_version = nccl, .look = 2'000});
  }
}

TEST_CASE("a long run writes its trace on the way", "[cuda]") {
  test::Run run = test::training_run(FullyShardOptions{.units = {"pair"}}, 2);
  run.steps = 40;
  check_trace(run, {.ranks = 2, .seed = 3, .only_nccl = true, .look = 2'000});
}

// Tells `all` what every rank has said, and everybody what rank 0 has.
Status say(CudaPeers& peers, std::vector<std::byte>& own, std::vector<std::byte>& all) {
  const CudaModule module = StandIn::module();
  module.cuda.set_device(peers.rank());
  Patience patience(peers, {});
  Communicators communicators(module.nccl, peers, patience, false);
  TESSERA_TRY(communicators.open(false));
  EventPool events(module.cuda);
  Lane lane(module.cuda, events);
  TESSERA_TRY(lane.open(0));
  {
    NcclLink link(module.cuda, module.nccl, peers, communicators, events, lane.stream());
    TESSERA_TRY(link.open(peers.rank()));
    const auto complete = [&](TraceLink::Request request) {
      return patience.until(
          [&]() -> Result<Patience::Seen> {
            TESSERA_ASSIGN(const bool done, link.test(request));
            return done ? Patience::Seen::done : Patience::Seen::nothing;
          },
          [] { return std::string("the others"); });
    };
    TESSERA_ASSIGN(const auto gathered, link.gather(own, all));
    TESSERA_TRY(complete(gathered));
    TESSERA_ASSIGN(const auto told, link.broadcast(own));
    TESSERA_TRY(complete(told));
  }
  return communicators.close();
}

TEST_CASE("what ranks tell one another by NCCL may be longer than a piece", "[cuda]") {
  const std::size_t size = GENERATE(0, 1, 4096, 1'300'001);
  constexpr Rank ranks = 3;
  StandIn world({.ranks = ranks, .seed = 2, .only_nccl = true});
  std::vector<std::byte> all;
  std::vector<std::vector<std::byte>> own(ranks);
  const auto said = [](Rank rank, std::size_t k) {
    return static_cast<std::byte>(static_cast<std::size_t>(rank + 1) * 31 + k * 7 + k / 251);
  };
  const auto statuses = world.run([&](std::unique_ptr<CudaPeers> peers) {
    const Rank rank = peers->rank();
    std::vector<std::byte>& mine = own[static_cast<std::size_t>(rank)];
    for (std::size_t k = 0; k < size; ++k) mine.push_back(said(rank, k));
    std::vector<std::byte> nothing;
    if (rank == 0) all.resize(size * ranks);
    return say(*peers, mine, rank == 0 ? all : nothing);
  });
  test::require_clean({statuses, world.reports(), world.leaks()});
  bool right = true;
  for (std::size_t k = 0; k < all.size(); ++k) {
    right = right && all[k] == said(static_cast<Rank>(k / size), k % size);
  }
  CHECK(right);
  for (const auto& each : own) CHECK(each == own[0]);
}

// Whether the fault was reached. Nobody hears why rank 1 ended, so rank 0 waits to its deadline.
bool ends_everywhere(Call call, int use) {
  StandIn world({.ranks = 2,
                 .seed = 7,
                 .fault = test::PlantedFault{.call = call, .rank = 1, .use = use},
                 .deaf = true,
                 .only_nccl = true});
  RecordedTrace trace;
  const test::Run run = test::training_run(FullyShardOptions{.units = {"pair"}}, 2);
  const auto statuses =
      test::run_on(world, [&](ProcessRuntime& runtime, Rank) { return train_on(runtime, run); },
                   {.deadline = 500'000'000, .sink = &trace});
  if (world.uses(call, 1) < use) return false;
  INFO("call " << static_cast<int>(call) << ", use " << use << ": " << statuses[0].message());
  CHECK(world.reports().empty());
  CHECK(world.leaks().empty());
  CHECK(statuses[1].message().find("failed: code 999") != std::string::npos);
  CHECK_FALSE(statuses[0].ok());
  if (!trace.ops.empty()) CHECK(trace.diagnostics.size() == 1);
  return true;
}

TEST_CASE("a rank that fails ends the run of all, and the trace says why", "[cuda]") {
  for (const Call call : {Call::all_gather, Call::host_alloc, Call::mem_create}) {
    int use = 1;
    while (ends_everywhere(call, use)) use += test::place_distance;
    CHECK(use > 1);
  }
}

}  // namespace
}  // namespace tessera
