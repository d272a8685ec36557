// SPDX-License-Identifier: Apache-2.0
// Ranks of one world as threads, each with a ProcessRuntime of its own.
#pragma once

#include <catch2/catch.hpp>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "engine/backends/host/host_backend.h"
#include "engine/backends/host/thread_transport.h"

namespace tessera::test {

/// Runs `program` on every rank; a rank that fails ends the others. Status by rank.
inline std::vector<Status> on_threads(Rank ranks, const HostOptions& options,
                                      const std::function<Status(ProcessRuntime&, Rank)>& program) {
  ThreadWorld world(ranks);
  std::vector<Status> statuses(static_cast<std::size_t>(ranks));
  std::vector<std::thread> threads;
  for (Rank rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      auto transport = world.join(rank);
      auto runtime = make_host_runtime(std::move(transport), options);
      Status& status = statuses[static_cast<std::size_t>(rank)];
      status = runtime.ok() ? program(**runtime, rank) : runtime.status();
      if (!status.ok() && runtime.ok()) (*runtime)->give_up(status);
    });
  }
  for (std::thread& thread : threads) thread.join();
  return statuses;
}

inline void require_all_ok(const std::vector<Status>& statuses) {
  for (std::size_t rank = 0; rank < statuses.size(); ++rank) {
    INFO("rank " << rank << ": " << statuses[rank].message());
    REQUIRE(statuses[rank].ok());
  }
}

/// For check_as_simulated.
inline auto threads_of(Rank ranks) {
  return [ranks](const std::function<Status(ProcessRuntime&, Rank)>& program) {
    require_all_ok(on_threads(ranks, {}, program));
  };
}

}  // namespace tessera::test
