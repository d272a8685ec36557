// SPDX-License-Identifier: Apache-2.0
// The other ranks, reached through a Transport (MPI), or only by the name of rank 0's port.
#pragma once

#include <memory>
#include <optional>

#include "engine/backends/cuda/peers.h"
#include "engine/backends/host/thread_transport.h"
#include "engine/backends/host/transport.h"

namespace tessera {

class TransportPeers final : public CudaPeers {
 public:
  explicit TransportPeers(std::unique_ptr<Transport> transport)
      : transport_(std::move(transport)) {}

  Rank rank() const override { return transport_->rank(); }
  Rank ranks() const override { return transport_->ranks(); }
  Result<bool> share(std::span<std::byte> data) override;
  void abort(const Status& why) override;
  Status ended() override;
  void idle() override { transport_->idle(); }
  Transport* transport() override { return transport_.get(); }

 private:
  const std::unique_ptr<Transport> transport_;
  std::optional<Transport::Request> sharing_;
};

/// Ranks that only NCCL connects: its id comes from the environment, and a rank does not learn why
/// another one has ended.
class NamedPeers final : public CudaPeers {
 public:
  NamedPeers(Rank rank, Rank ranks) : rank_(rank), ranks_(ranks) {
    if (ranks == 1) alone_ = ThreadWorld(1).join(0);
  }

  Rank rank() const override { return rank_; }
  Rank ranks() const override { return ranks_; }
  Result<bool> share(std::span<std::byte>) override { return true; }
  void abort(const Status&) override {}
  Status ended() override { return {}; }
  void idle() override;
  Transport* transport() override { return alone_.get(); }

 private:
  const Rank rank_;
  const Rank ranks_;
  std::unique_ptr<Transport> alone_;  // a world of one rank needs no other connection
};

}  // namespace tessera
