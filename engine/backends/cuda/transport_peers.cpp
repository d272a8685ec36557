// SPDX-License-Identifier: Apache-2.0
#include "engine/backends/cuda/transport_peers.h"

#include <limits>
#include <thread>

namespace tessera {
namespace {

constexpr CommunicatorId everyone{std::numeric_limits<std::int32_t>::max()};

}  // namespace

Result<bool> TransportPeers::share(std::span<std::byte> data) {
  if (!sharing_) {
    TESSERA_ASSIGN(const auto all, RankGroups::strided(ranks(), ranks()));
    TESSERA_TRY(transport_->add_communicator(everyone, all));
    TESSERA_ASSIGN(sharing_, transport_->broadcast(everyone, 0, data));
  }
  TESSERA_ASSIGN(const bool done, transport_->test(*sharing_));
  if (done) sharing_.reset();
  return done;
}

void TransportPeers::abort(const Status& why) { transport_->abort(why); }

// A transport learns that the run is over by taking messages; no other messages are sent here.
Status TransportPeers::ended() {
  TESSERA_TRY(transport_->take().status());
  return transport_->ended();
}

void NamedPeers::idle() { std::this_thread::yield(); }

}  // namespace tessera
