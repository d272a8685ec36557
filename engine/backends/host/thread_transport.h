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

  // One collective of one group, in three rounds: no rank reads before all have come, no rank
  // leaves before all have read, and the last one to leave removes the meeting.
  struct Meeting {
    std::vector<std::span<const std::byte>> inputs;  // by index
    Index come = 0;
    Index read = 0;
    Index left = 0;
  };
  using Key = std::tuple<CommunicatorId, Index, std::int64_t>;  // group, sequence number

  // Transports share its ownership, so they may outlive the world.
  struct Shared {
    explicit Shared(Rank count) : ranks(count), messages(static_cast<std::size_t>(count)) {}

    const Rank ranks;
    std::mutex mutex;
    std::condition_variable changed;
    std::map<Key, Meeting> meetings;
    std::vector<std::deque<Transport::Message>> messages;  // by receiver, not taken yet
    Status ended;
  };
  const std::shared_ptr<Shared> shared_;
};

}  // namespace tessera
