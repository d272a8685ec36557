// SPDX-License-Identifier: Apache-2.0
// A thread of NCCL's enqueues each collective after its call has returned: nothing overtakes it,
// and one that never comes is given up.
#include "tests/backends/cuda/cuda_ranks.h"
#include "tests/backends/cuda/peer_scene.h"
#include "tests/backends/host/as_simulated.h"

namespace tessera {
namespace {

using test::StandIn;

TEST_CASE("nothing overtakes a collective that NCCL enqueues late", "[cuda]") {
  const int calls = GENERATE(1, 7, 40);
  for (std::uint64_t seed = 1; const auto& [name, scheme] : test::schemes()) {
    INFO(name << ", " << calls << " calls");
    const test::StandInOptions options{
        .ranks = 2, .device_bytes = std::size_t{16} << 20, .seed = seed++, .nccl_calls = calls};
    test::check_as_simulated(name, scheme, 2, [&](const test::RankProgram& program) {
      test::require_clean(test::run_on_gpus(options, program));
    });
  }
}

TEST_CASE("a collective that NCCL never enqueues is given up at the deadline, by name", "[cuda]") {
  StandIn world({.ranks = 2, .seed = 3, .deaf = true, .nccl_calls = 1'000'000});
  const auto statuses = test::run_on(world,
                                     [&](ProcessRuntime& host, Rank) -> Status {
                                       test::PeerScene scene(host, "");
                                       TESSERA_TRY(scene.setup());
                                       TESSERA_TRY(scene.all_reduce());
                                       return host.finish();
                                     },
                                     {.deadline = 3'000'000'000});
  for (const Status& status : statuses) {
    CHECK(status.code() == Code::timed_out);
    CHECK(status.message().find("waited 3.0 s for ncclAllReduce") != std::string::npos);
  }
  CHECK(world.reports().empty());
  CHECK(world.leaks().empty());
}

// What the stand-in says if the host does not wait.
TEST_CASE("a collective beside one that NCCL still enqueues is found", "[cuda]") {
  StandIn world({.seed = 1, .nccl_calls = 20});
  world.run([](std::unique_ptr<CudaPeers>) -> Status {
    const CudaModule module = StandIn::module();
    CudaStream stream = nullptr;
    module.cuda.stream_create(&stream, 0);
    NcclId id;
    module.nccl.get_unique_id(&id);
    NcclComm all = nullptr;
    NcclComm part = nullptr;
    const auto wait = [&] {
      int state = nccl_in_progress;
      while (state == nccl_in_progress) module.nccl.comm_get_async_error(all, &state);
    };
    module.nccl.comm_init_rank(&all, 1, &id, 0, {});
    wait();
    module.nccl.comm_split(all, 0, 0, &part, {});
    wait();
    void* memory = nullptr;
    module.cuda.host_alloc(&memory, 64);
    for (NcclComm comm : {all, part}) {
      CHECK(module.nccl.all_gather(memory, memory, 4, NcclType::uint8, comm, stream) ==
            nccl_in_progress);
    }
    module.nccl.comm_abort(part);
    module.nccl.comm_abort(all);
    module.cuda.free_host(memory);
    module.cuda.stream_destroy(stream);
    return {};
  });
  REQUIRE(world.reports().size() == 1);
  CHECK(world.reports()[0] ==
        "rank 0: all_gather is called while NCCL still enqueues another: their order is open");
}

}  // namespace
}  // namespace tessera
