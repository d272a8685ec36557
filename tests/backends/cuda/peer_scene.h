// SPDX-License-Identifier: Apache-2.0
// Two ranks with an all_reduce, and what one of them does behind it.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "tests/backends/cuda/cuda_ranks.h"
#include "tests/temporary_folder.h"

namespace tessera::test {

inline constexpr Numel many{1 << 20};

// Two ranks, an all_reduce, and something behind it for which CUDA may wait for the device.
class PeerScene {
 public:
  PeerScene(Runtime& runtime, std::string folder) : runtime_(runtime), folder_(std::move(folder)) {}

  Status setup() {
    TESSERA_ASSIGN(const auto all, RankGroups::strided(2, 2));
    TESSERA_ASSIGN(stream_, runtime_.create_stream("s", StreamRole::compute));
    TESSERA_ASSIGN(everybody_, runtime_.create_communicator(all, "all"));
    return {};
  }
  Status take_numbers() {
    TESSERA_ASSIGN(numbers_, allocate(Memory::device, many));
    return submit(Compute{.writes = {numbers_}, .zeroed = {0}}, "zeros");
  }
  Status all_reduce() {
    if (!numbers_.buffer.valid()) TESSERA_TRY(take_numbers());
    TESSERA_TRY(submit(AllReduce{everybody_, numbers_, numbers_}, "here"));
    return submit(Compute{.reads = {numbers_}}, "behind");
  }
  Result<View> allocate(Memory memory, Numel numel) {
    TESSERA_ASSIGN(const BufferId id,
                   runtime_.allocate({.bytes = bytes_of(numel, DType::float32),
                                      .memory = memory,
                                      .stream = stream_,
                                      .where = runtime_.world(),
                                      .name = "numbers",
                                      .directory = memory == Memory::nvme ? folder_ : ""}));
    return View::whole(id, DType::float32, numel);
  }
  Status work(const std::function<void(const BodyContext&)>& body, bool on_numbers = false) {
    return submit(Compute{.writes = {numbers_}, .body = body, .on_numbers = on_numbers}, "work");
  }

 private:
  Status submit(decltype(Op::what) what, std::string_view unit) {
    return runtime_
        .submit({.stream = stream_,
                 .where = runtime_.world(),
                 .cause = {.unit = unit},
                 .what = std::move(what)})
        .status();
  }

  Runtime& runtime_;
  const std::string folder_;
  StreamId stream_;
  CommunicatorId everybody_;
  View numbers_;
};

/// Rank 1 dies before the all_reduce; rank 0 does `then` behind it. REQUIRES: a world of 2 ranks.
inline std::vector<Status> run_dead_peer(StandIn& world,
                                         const std::function<Status(PeerScene&)>& then) {
  const TemporaryFolder folder;
  return run_on(world,
                [&](ProcessRuntime& host, Rank rank) -> Status {
                  PeerScene scene(host, folder.path());
                  TESSERA_TRY(scene.setup());
                  if (rank == 1) return Status(Code::cancelled, "died");
                  TESSERA_TRY(scene.all_reduce());
                  TESSERA_TRY(then(scene));
                  return host.finish();
                },
                {.deadline = 3'000'000'000});
}

}  // namespace tessera::test
