// SPDX-License-Identifier: Apache-2.0
// The NCCL communicators of this rank: one of the world, from which every mesh axis is split.
//
// The idea: none of them blocks. A call that NCCL has not finished is polled until it has; the poll
// also notices failures of other ranks and the deadline. After any error all communicators are
// aborted.
#pragma once

#include <map>
#include <memory>

#include "engine/backends/cuda/nccl_api.h"
#include "engine/backends/cuda/patience.h"
#include "tessera/rank_set.h"

namespace tessera {

class Communicators {
 public:
  /// `copy_engines` sets NcclCommOptions::copy_engines of the communicators that are split.
  Communicators(const NcclApi& api, CudaPeers& peers, Patience& patience, bool copy_engines)
      : api_(api), peers_(peers), patience_(patience), copy_engines_(copy_engines) {}
  Communicators(const Communicators&) = delete;
  Communicators& operator=(const Communicators&) = delete;
  ~Communicators() { abort(); }

  /// Opens the world. Collective over all ranks. `id_from_environment`: NCCL_COMM_ID names rank 0.
  Status open(bool id_from_environment);
  /// Makes `id` stand for this rank's group of `groups`. Collective over all ranks.
  Status split(CommunicatorId id, const RankGroups& groups, const std::string& name);

  NcclComm world() const { return world_; }
  NcclComm at(CommunicatorId id) const { return groups_.at(id); }

  /// Waits for a call whose `code` says whether `comm` is still busy with it; returns its result.
  Status finish_call(NcclComm comm, int code, const char* call);
  /// Waits for a call after which `comm` may be busy whatever `code` says (splits, registrations);
  /// returns its result.
  Status await(NcclComm comm, int code, const char* call);
  /// Fails: communication_error, if a communicator has failed meanwhile.
  Status check() const;
  /// Finalizes and destroys all communicators. Collective over all ranks.
  Status close();
  /// Aborts all communicators, with the collectives that are under way.
  void abort();

 private:
  Status close(NcclComm& comm);

  const NcclApi& api_;
  CudaPeers& peers_;
  Patience& patience_;
  const bool copy_engines_;
  NcclComm world_ = nullptr;
  std::map<CommunicatorId, NcclComm> groups_;    // NCCL fills them in while it works
  std::map<CommunicatorId, std::string> names_;  // NCCL reads them when its profiler starts
};

}  // namespace tessera
