// SPDX-License-Identifier: Apache-2.0
// Ranks on fake GPUs, each with a backend of its own.
#pragma once

#include <catch2/catch.hpp>
#include <functional>
#include <string>
#include <vector>

#include "engine/backends/cuda/cuda_backend.h"
#include "tests/backends/cuda/stand_in/stand_in.h"

namespace tessera::test {

struct CudaOutcome {
  std::vector<Status> statuses;  // by rank
  std::vector<std::string> reports;
  std::string leaks;
};

using CudaProgram = std::function<Status(ProcessRuntime&, Rank)>;

/// Runs `program` on every rank. Nothing waits longer than a hundred thousand looks.
inline std::vector<Status> run_on(StandIn& world, const CudaProgram& program,
                                  CudaOptions options = {}) {
  const CudaModule module = StandIn::module();
  if (!options.clock) options.clock = [&world] { return world.now(); };
  if (options.deadline == CudaOptions{}.deadline) options.deadline = 100'000'000'000;
  return world.run([&](std::unique_ptr<CudaPeers> peers) -> Status {
    const Rank rank = peers->rank();
    TESSERA_ASSIGN(const auto runtime, make_cuda_runtime(module, std::move(peers), options));
    return program(*runtime, rank);
  });
}

inline CudaOutcome run_on_gpus(const StandInOptions& options, const CudaProgram& program,
                               const CudaOptions& cuda = {}) {
  StandIn world(options);
  CudaOutcome outcome;
  outcome.statuses = run_on(world, program, cuda);
  outcome.reports = world.reports();
  outcome.leaks = world.leaks();
  return outcome;
}

/// Rank 0 ended at its deadline of 3 s, and named what it waited for.
inline void check_peer_died(const std::vector<Status>& statuses) {
  INFO(statuses[0].message());
  CHECK(statuses[0].code() == Code::timed_out);
  CHECK(statuses[0].message().find("waited 3.0 s for the all_reduce of unit here") !=
        std::string::npos);
}

inline void require_clean(const CudaOutcome& outcome) {
  for (std::size_t rank = 0; rank < outcome.statuses.size(); ++rank) {
    INFO("rank " << rank << ": " << outcome.statuses[rank].message());
    INFO((outcome.reports.empty() ? std::string() : outcome.reports.front()));
    REQUIRE(outcome.statuses[rank].ok());
  }
  INFO((outcome.reports.empty() ? std::string() : outcome.reports.front()));
  REQUIRE(outcome.reports.empty());
  REQUIRE(outcome.leaks.empty());
}

}  // namespace tessera::test
