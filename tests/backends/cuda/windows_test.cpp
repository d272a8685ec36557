// SPDX-License-Identifier: Apache-2.0
// Memory that NCCL knows: the same numbers, in windows that are the same on all ranks.
#include "engine/backends/cuda/windows.h"

#include "tests/backends/cuda/cuda_ranks.h"
#include "tests/backends/host/as_simulated.h"

namespace tessera {
namespace {

using test::StandIn;

TEST_CASE("with windows the same comes out, and all of them are given back", "[cuda][windows]") {
  const Rank ranks = GENERATE(2, 4);
  for (std::uint64_t seed = 0; seed <= test::generated(20); ++seed) {
    const auto schemes = test::schemes();
    const auto& [name, scheme] = schemes[seed % schemes.size()];
    if (name == "sharded_data_parallel") continue;  // owners have buffers that others lack
    INFO("seed " << seed);
    test::check_as_simulated(name, scheme, ranks, [&](const test::RankProgram& program) {
      StandIn world({.ranks = ranks, .seed = seed});
      test::require_clean({test::run_on(world, program, {.windows = CudaOptions::Windows::on}),
                           world.reports(), world.leaks()});
      CHECK(world.uses(test::Call::comm_window_register, 0) > 0);
      CHECK(world.uses(test::Call::comm_window_register, 0) ==
            world.uses(test::Call::comm_window_deregister, 0));
    });
  }
}

TEST_CASE("windows can be left to what NCCL has and what else was asked for", "[cuda][windows]") {
  const auto opens = [](int nccl, CudaOptions options) {
    options.windows = CudaOptions::Windows::automatic;
    StandIn world({.ranks = 2, .nccl_version = nccl});
    const test::Run run = test::training_run(FullyShardOptions{.units = {"pair"}}, 2);
    const auto statuses = test::run_on(
        world,
        [&](ProcessRuntime& runtime, Rank) {
          test::Trained trained;
          return test::train(
              runtime, run, [&](Rank) -> test::Trained& { return trained; },
              [&] { return runtime.finish(); });
        },
        options);
    test::require_clean({statuses, world.reports(), world.leaks()});
    return world.uses(test::Call::comm_window_register, 0) > 0;
  };
  CHECK(opens(22809, {}));
  CHECK_FALSE(opens(22609, {}));
  CHECK_FALSE(opens(22809, {.deterministic = true}));
}

TEST_CASE("an NCCL without windows is named", "[cuda][windows]") {
  StandIn world({.ranks = 2, .nccl_version = 22609});
  const auto statuses = test::run_on(world, [](ProcessRuntime&, Rank) { return Status(); },
                                     {.windows = CudaOptions::Windows::on});
  CHECK(statuses[0].message() == "CudaOptions::windows needs NCCL 2.27 or newer: switch it off");
  CHECK(world.leaks().empty());
}

TEST_CASE("windows and what excludes them are refused together", "[cuda][windows]") {
  const auto refusal = [](const CudaOptions& options) {
    StandIn world({});
    const auto statuses = test::run_on(
        world, [](ProcessRuntime&, Rank) { return Status(); }, options);
    CHECK(statuses[0].code() == Code::invalid_argument);
    CHECK(world.leaks().empty());
    return statuses[0].message();
  };
  CHECK(refusal({.windows = CudaOptions::Windows::on, .deterministic = true}) ==
        "CudaOptions::windows lets NCCL add in an order that it does not tell: leave it or "
        "deterministic out");
  CHECK(refusal({.share_gpu = true, .windows = CudaOptions::Windows::on}) ==
        "CudaOptions::windows needs GPUs that reach each other's memory, which share_gpu switches "
        "off: leave one out");
}

// A buffer that only rank 0 has moves the next one there.
TEST_CASE("a buffer at another offset on some rank is refused by name", "[cuda][windows]") {
  const bool windows = GENERATE(true, false);
  StandIn world({.ranks = 2, .seed = 3});
  const auto statuses = test::run_on(
      world,
      [](ProcessRuntime& host, Rank) -> Status {
        Runtime& runtime = host;
        TESSERA_ASSIGN(const auto all, RankGroups::strided(2, 2));
        TESSERA_ASSIGN(const auto world_id, runtime.create_communicator(all, "world"));
        TESSERA_ASSIGN(const auto stream, runtime.create_stream("one", StreamRole::compute));
        const auto allocate = [&](const RankSet& where, std::string_view name) {
          return runtime.allocate(
              {.bytes = Bytes{4096}, .stream = stream, .where = where, .name = name});
        };
        TESSERA_TRY(allocate(RankSet::single(0), "own").status());
        TESSERA_ASSIGN(const BufferId shared, allocate(runtime.world(), "shared"));
        const View view = View::whole(shared, DType::float32, Numel{1024});
        const auto submit = [&](decltype(Op::what) what) {
          return runtime
              .submit({.stream = stream,
                       .where = runtime.world(),
                       .cause = {.unit = "here"},
                       .what = std::move(what)})
              .status();
        };
        TESSERA_TRY(submit(Compute{.writes = {view}, .zeroed = {0}}));
        TESSERA_TRY(submit(AllReduce{world_id, view, view}));
        TESSERA_TRY(submit(Compute{.reads = {view}}));
        return host.finish();
      },
      {.windows = windows ? CudaOptions::Windows::on : CudaOptions::Windows::off});
  CHECK(world.leaks().empty());
  if (!windows) return test::require_clean({statuses, world.reports(), ""});
  CHECK(statuses[0].message() ==
        "all_reduce of unit here has shared at offset 4096 on rank 0 and at 0 on rank 1: "
        "CudaOptions::windows needs equal offsets, switch it off");
  CHECK_FALSE(statuses[1].ok());
}

// Numbers of 1.5 MiB each: the second buffer begins in one page of the device and ends in another.
Status several_buffers(ProcessRuntime& host, Rank) {
  constexpr Numel numel{3 << 17};
  Runtime& runtime = host;
  TESSERA_ASSIGN(const auto all, RankGroups::strided(2, 2));
  TESSERA_ASSIGN(const auto everybody, runtime.create_communicator(all, "all"));
  TESSERA_ASSIGN(const auto stream, runtime.create_stream("one", StreamRole::compute));
  for (int k = 0; k < 5; ++k) {
    TESSERA_ASSIGN(const BufferId buffer,
                   runtime.allocate({.bytes = bytes_of(numel, DType::float32),
                                     .stream = stream,
                                     .where = runtime.world(),
                                     .name = "numbers"}));
    const View view = View::whole(buffer, DType::float32, numel);
    const auto submit = [&](decltype(Op::what) what) {
      return runtime
          .submit(
              {.stream = stream, .where = runtime.world(), .cause = {}, .what = std::move(what)})
          .status();
    };
    TESSERA_TRY(submit(Compute{.writes = {view}, .zeroed = {0}}));
    TESSERA_TRY(submit(AllReduce{everybody, view, view}));
    TESSERA_TRY(submit(Compute{.reads = {view}}));
  }
  return host.finish();
}

TEST_CASE("no buffer begins in a window and ends behind it", "[cuda][windows]") {
  const std::uint64_t seed = GENERATE(0, 1, 2, 3);
  INFO("seed " << seed);
  StandIn world({.ranks = 2, .seed = seed});
  test::require_clean({test::run_on(world, several_buffers, {.windows = CudaOptions::Windows::on}),
                       world.reports(), world.leaks()});
  CHECK(world.uses(test::Call::comm_window_register, 0) == 1);
}

TEST_CASE("windows are as large as the rank with the least memory can make them",
          "[cuda][windows]") {
  StandIn world({.ranks = 2, .taken_bytes = std::size_t{20} << 20, .seed = 2});
  test::require_clean({test::run_on(world, several_buffers, {.windows = CudaOptions::Windows::on}),
                       world.reports(), world.leaks()});
}

TEST_CASE("memory that a window left to NCCL is named where it would have been enough",
          "[cuda][windows]") {
  StandIn world({.ranks = 2, .device_bytes = std::size_t{8} << 20, .seed = 2});
  const auto statuses = test::run_on(world, several_buffers, {.windows = CudaOptions::Windows::on});
  INFO(statuses[0].message());
  CHECK(statuses[0].message().find("the device has less memory altogether; CudaOptions::windows "
                                   "leaves the rest to NCCL, off does not") != std::string::npos);
  CHECK(world.leaks().empty());
}

TEST_CASE("an NCCL that starts collectives in any order is told the order", "[cuda]") {
  const auto schemes = test::schemes();
  for (std::uint64_t seed = 1; seed <= test::generated(20); ++seed) {
    const auto& [name, scheme] = schemes[seed % schemes.size()];
    INFO("seed " << seed);
    test::check_as_simulated(name, scheme, 4, [&](const test::RankProgram& program) {
      test::require_clean(
          test::run_on_gpus({.ranks = 4, .seed = seed, .nccl_version = 22005}, program));
    });
  }
}

}  // namespace
}  // namespace tessera
