// SPDX-License-Identifier: Apache-2.0
// Ranks that are threads of one process: for tests, and for one rank alone.
//
//   ThreadWorld world(4);
//   std::unique_ptr<Transport> transport = world.join(rank);    // in each of 4 threads
#pragma once

#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <tuple>
#include <vector>

#include "engine/backends/host/transport.h"

namespace tessera {

class ThreadWorld {
 public:
  explicit ThreadWorld(Rank ranks) : shared_(std::make_shared<Shared>(ranks)) {}
  std::unique_ptr<Transport> join(Rank rank);

 private:
  friend class ThreadTransport;

  // One collective of one group. Three rounds: nobody reads before all have come, nobody leaves
  // before all have read, the last to leave clears up.
  struct Meeting {
    std::vector<std::span<const std::byte>> inputs;  // by index
    Index come = 0;
    Index read = 0;
    Index left = 0;
  };
  using Key = std::tuple<CommunicatorId, Index, std::int64_t>;  // group, sequence number

  // Transports keep it alive, so they may outlive the world.
  struct Shared {
    explicit Shared(Rank count) : ranks(count), letters(static_cast<std::size_t>(count)) {}

    const Rank ranks;
    std::mutex mutex;
    std::condition_variable changed;
    std::map<Key, Meeting> meetings;
    std::vector<std::deque<Transport::Letter>> letters;  // by the rank that has not taken them yet
    Status ended;
  };
  const std::shared_ptr<Shared> shared_;
};

}  // namespace tessera
