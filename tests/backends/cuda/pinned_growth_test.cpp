// SPDX-License-Identifier: Apache-2.0
// Pinned host memory that grows when it is not enough, and one that may not.
#include "tests/backends/cuda/cuda_ranks.h"

namespace tessera {
namespace {

using test::StandIn;

constexpr Numel numel{1 << 16};

// Buffers of host memory, one after the other: each gets numbers of its own from the device, on its
// way when the next one is allocated. They come back when all of them are there.
Status fill(ProcessRuntime& host, int buffers, std::vector<float>& seen) {
  Runtime& runtime = host;
  TESSERA_ASSIGN(const auto stream, runtime.create_stream("one", StreamRole::compute));
  const auto allocate = [&](Memory memory, std::string_view name) -> Result<View> {
    TESSERA_ASSIGN(const BufferId id, runtime.allocate({.bytes = bytes_of(numel, DType::float32),
                                                        .memory = memory,
                                                        .stream = stream,
                                                        .where = runtime.world(),
                                                        .name = name}));
    return View::whole(id, DType::float32, numel);
  };
  const auto submit = [&](decltype(Op::what) what) {
    return runtime
        .submit({.stream = stream, .where = runtime.world(), .cause = {}, .what = std::move(what)})
        .status();
  };
  const auto copy = [&](const View& from, const View& to, CopyRoute route) {
    return submit(Copy{.index_in = {}, .pieces = {{.from = from, .to = to}}, .route = route});
  };
  TESSERA_ASSIGN(const View device, allocate(Memory::device, "device"));
  std::vector<View> views;
  for (int k = 0; k < buffers; ++k) {
    TESSERA_TRY(submit(Compute{.writes = {device},
                               .body =
                                   [k](const BodyContext& context) {
                                     for (float& x : context.write_as<float>(0)) {
                                       x = static_cast<float>(k + 1);
                                     }
                                   },
                               .on_numbers = true}));
    TESSERA_ASSIGN(const View view, allocate(Memory::pinned_host, "the host's"));
    views.push_back(view);
    TESSERA_TRY(copy(device, view, CopyRoute::to_host));
  }
  for (const View& view : views) {
    TESSERA_TRY(copy(view, device, CopyRoute::to_device));
    TESSERA_TRY(submit(Compute{.reads = {device},
                               .body =
                                   [&seen](const BodyContext& context) {
                                     const auto numbers = context.read_as<float>(0);
                                     seen.push_back(numbers.front());
                                     seen.push_back(numbers.back());
                                   },
                               .on_numbers = true}));
  }
  return host.finish();
}

TEST_CASE("pinned memory grows to what is needed, and keeps what is in it", "[cuda]") {
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    INFO("seed " << seed);
    StandIn world({.seed = seed});
    std::vector<float> seen;
    const auto statuses =
        test::run_on(world, [&](ProcessRuntime& host, Rank) { return fill(host, 9, seen); });
    test::require_clean({statuses, world.reports(), world.leaks()});
    CHECK(seen == std::vector<float>{1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7, 8, 8, 9, 9});
  }
}

TEST_CASE("pinned memory of a size that was asked for does not grow", "[cuda]") {
  StandIn world({.seed = 1});
  std::vector<float> seen;
  const auto statuses =
      test::run_on(world, [&](ProcessRuntime& host, Rank) { return fill(host, 9, seen); },
                   {.pinned_memory = Bytes{1 << 20}});
  CHECK(statuses[0].code() == Code::out_of_memory);
  CHECK(statuses[0].message() ==
        "rank 0 has no room for the 262144 bytes of the host's in pinned host memory: 1310720 "
        "bytes would be in use, CudaOptions::pinned_memory is 1048576");
  CHECK(world.leaks().empty());
}

}  // namespace
}  // namespace tessera
