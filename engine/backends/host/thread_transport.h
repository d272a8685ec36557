// SPDX-License-Identifier: Apache-2.0
// Ranks that are threads of one process: for tests, and for one rank alone.
//
//   ThreadWorld world(4);
//   std::unique_ptr<Transport> transport = world.join(rank);    // in each of 4 threads
#pragma once

#include <memory>

#include "engine/backends/host/transport.h"

namespace tessera {

class ThreadWorld {
 public:
  explicit ThreadWorld(Rank ranks);
  std::unique_ptr<Transport> join(Rank rank);

  struct Shared;  // what the transports of all ranks meet in; they may outlive the world

 private:
  const std::shared_ptr<Shared> shared_;
};

}  // namespace tessera
