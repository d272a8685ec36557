// SPDX-License-Identifier: Apache-2.0
// How ranks on GPUs find each other and hear when one gives up, and how the runtime starts.
#include <algorithm>
#include <catch2/catch.hpp>
#include <thread>

#include "engine/backends/cuda/nccl_settings.h"
#include "engine/backends/cuda/patience.h"
#include "engine/backends/cuda/transport_peers.h"
#include "tessera/cuda_runtime.h"

namespace tessera {
namespace {

// Runs `program` on both ranks of a world.
void both(const std::function<void(CudaPeers&)>& program) {
  ThreadWorld world(2);
  const auto run = [&](Rank rank) {
    TransportPeers peers(world.join(rank));
    program(peers);
  };
  std::thread other(run, 1);
  run(0);
  other.join();
}

std::string shared_by(CudaPeers& peers) {
  std::string data = peers.rank() == 0 ? "the id" : "......";
  while (true) {
    const auto done = peers.share(std::as_writable_bytes(std::span(data)));
    if (!done.ok()) return done.status().message();
    if (*done) return data;
    peers.idle();
  }
}

TEST_CASE("what rank 0 knows reaches all ranks", "[cuda]") {
  std::vector<std::string> heard(2);
  both([&](CudaPeers& peers) { heard[static_cast<std::size_t>(peers.rank())] = shared_by(peers); });
  CHECK(heard == std::vector<std::string>{"the id", "the id"});
}

TEST_CASE("a rank that waits hears why another one has ended", "[cuda]") {
  Status heard;
  both([&](CudaPeers& peers) {
    if (peers.rank() == 1) return peers.abort(Status(Code::out_of_memory, "no room"));
    Patience patience(peers, {});
    heard = patience.until([]() -> Result<Patience::Seen> { return Patience::Seen::nothing; },
                           [] { return std::string("what never comes"); });
  });
  CHECK(heard.message().find("no room") != std::string::npos);
}

TEST_CASE("a rank that waits can be told to stop", "[cuda]") {
  NamedPeers peers(1, 2);
  CHECK(peers.transport() == nullptr);
  CHECK(peers.ended().ok());
  int asked = 0;
  Patience patience(peers, {.interrupted = [&] { return ++asked > 3; }});
  const Status stopped =
      patience.until([]() -> Result<Patience::Seen> { return Patience::Seen::nothing; },
                     [] { return std::string("a collective"); });
  CHECK(stopped.code() == Code::cancelled);
  CHECK(stopped.message() == "rank 1 was asked to stop while it waited for a collective");
}

std::string value_of(const CudaOptions& options, Rank rank, const std::string& variable) {
  const auto settings = nccl_settings(options, rank);
  const auto found = std::find_if(settings.begin(), settings.end(),
                                  [&](const NcclSetting& s) { return s.variable == variable; });
  return found == settings.end() ? "" : found->value;
}

TEST_CASE("NCCL is told what the options mean", "[cuda]") {
  CHECK(value_of({}, 0, "NCCL_LAUNCH_ORDER_IMPLICIT") == "1");
  CHECK(value_of({}, 0, "NCCL_ALGO").empty());
  CHECK(value_of({.deterministic = true}, 0, "NCCL_ALGO") == "Ring");
  CHECK(value_of({}, 0, "NCCL_COMM_ID").empty());
  CHECK(value_of({.ranks = 2, .comm_id = "here:29501"}, 0, "NCCL_COMM_ID") == "here:29501");
  // Ranks on one GPU are hosts of their own, who talk through the loopback interface.
  CHECK(value_of({.share_gpu = true}, 1, "NCCL_HOSTID") == "tessera-rank-1");
  CHECK(value_of({.share_gpu = true}, 1, "NCCL_SOCKET_IFNAME") == "lo");
  CHECK(value_of({.share_gpu = true}, 1, "NCCL_P2P_DISABLE") == "1");
}

TEST_CASE("a runtime starts from a module, and says whom it cannot find", "[cuda]") {
  const std::string modules = TESSERA_CUDA_STAND_IN;
  CHECK(cuda_available(modules).status().message().empty());
  const auto why_not = [&](const CudaOptions& options) {
    return make_cuda_runtime(options, modules).status().message();
  };
  CHECK(why_not({.ranks = 2}) ==
        "2 ranks need CudaOptions::comm_id to find each other, or MPI (CudaOptions::of_mpi)");
  CHECK(why_not({.ranks = 2, .rank = 2, .comm_id = "here:1"}) == "CudaOptions::rank is 2 of 2");
  CHECK(why_not({.ranks = CudaOptions::of_mpi})
            .starts_with("libtessera_mpi.so is not there: install libopenmpi-dev"));
  auto runtime = make_cuda_runtime({.share_gpu = true}, modules);
  REQUIRE(runtime.ok());
  CHECK((*runtime)->world().count() == 1);
  CHECK((*runtime)->poll().ok());
  CHECK((*runtime)->finish().ok());
}

TEST_CASE("a rank that gives up says so", "[cuda]") {
  auto runtime = make_cuda_runtime({}, TESSERA_CUDA_STAND_IN);
  REQUIRE(runtime.ok());
  (*runtime)->give_up(Status(Code::io_error, "the disk is full"));
  CHECK((*runtime)->poll().message() == "rank 0 gave up: the disk is full");
  CHECK((*runtime)->finish().code() == Code::io_error);
}

}  // namespace
}  // namespace tessera
