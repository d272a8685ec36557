// SPDX-License-Identifier: Apache-2.0
// Bytes between processes through MPI. Needs MPI 3 for collectives that do not wait.
#pragma once

#include <mpi.h>

#include <map>
#include <memory>
#include <vector>

#include "engine/host/transport.h"

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
  void abort(const std::string& why) override;

 private:
  MpiTransport() = default;
  struct Group {
    MPI_Comm communicator = MPI_COMM_NULL;
    std::size_t members = 1;
  };
  Result<Request> started(int code, const char* call, MPI_Request request);
  Status hear_abort();

  MPI_Comm world_ = MPI_COMM_NULL;   // ours alone: nobody else's messages get in between
  MPI_Comm alarms_ = MPI_COMM_NULL;  // why a rank gave up
  Rank rank_ = 0;
  Rank ranks_ = 1;
  std::map<CommunicatorId, Group> groups_;
  std::map<Request, MPI_Request> pending_;
  Request next_ = 0;
  int idle_turns_ = 0;
  std::string last_words_;  // while they are being sent
  std::vector<MPI_Request> telling_;
};

}  // namespace tessera
