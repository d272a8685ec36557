// SPDX-License-Identifier: Apache-2.0
// Bytes between processes through MPI 3.
#pragma once

#include <mpi.h>

#include <list>
#include <map>
#include <memory>
#include <string>

#include "engine/backends/host/transport.h"
#include "engine/backends/mpi/mpi_exchange.h"

namespace tessera {

class MpiTransport final : public Transport {
 public:
  /// Starts MPI if nobody has. Collective over all processes.
  static Result<std::unique_ptr<MpiTransport>> create();
  ~MpiTransport() override;

  Rank rank() const override { return rank_; }
  Rank ranks() const override { return ranks_; }
  Status add_communicator(CommunicatorId id, const RankGroups& groups) override;
  Result<Request> all_gather(CommunicatorId id, std::span<const std::byte> input,
                             std::span<std::byte> output) override;
  Result<Request> all_to_all(CommunicatorId id, std::span<const std::byte> input,
                             std::span<std::byte> output) override;
  Result<Request> gather(CommunicatorId id, Index root, std::span<const std::byte> input,
                         std::span<std::byte> output) override;
  Result<Request> broadcast(CommunicatorId id, Index root, std::span<std::byte> data) override;
  Result<bool> test(Request request) override;
  void idle() override;
  bool post(Rank to, std::string message) override;
  Result<std::optional<Message>> take() override;
  void abort(const Status& why) override;
  Status ended() const override { return ended_; }

 private:
  MpiTransport() = default;
  struct Group {
    MPI_Comm communicator = MPI_COMM_NULL;
    int members = 1;
    int index = 0;
    int started = 0;
  };
  static MpiExchange exchange(Group& group);
  Request started(MpiExchange exchange);
  struct Outgoing {
    Rank to = 0;
    std::string text;
    MPI_Request request = MPI_REQUEST_NULL;
  };
  void send(Rank to, int tag, std::string text);
  void forget_sent();

  MPI_Comm world_ = MPI_COMM_NULL;  // ours alone: nobody else's messages get in between
  MPI_Comm messages_ = MPI_COMM_NULL;
  Rank rank_ = 0;
  Rank ranks_ = 1;
  std::map<CommunicatorId, Group> groups_;
  std::map<Request, MpiExchange> pending_;
  Request next_ = 0;
  int idle_turns_ = 0;
  std::list<Outgoing> outgoing_;  // messages that MPI has not sent yet
  Status ended_;                  // MPI is not called any more: its requests point into lost memory
};

}  // namespace tessera
