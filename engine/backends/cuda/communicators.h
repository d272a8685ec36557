// SPDX-License-Identifier: Apache-2.0
// The NCCL communicators of this rank: one of the world, from which every mesh axis is split.
//
// The idea: none of them blocks. A call that NCCL has not finished is looked at until it has, other
// ranks' failures and the deadline included, and after any error all of them are aborted.
#pragma once

#include <map>
#include <memory>

#include "engine/backends/cuda/nccl_api.h"
#include "engine/backends/cuda/patience.h"
#include "tessera/rank_set.h"

namespace tessera {

class Communicators {
 public:
  /// `copy_engines`: as in NcclCommOptions, of what is split.
  Communicators(const NcclApi& api, CudaPeers& peers, Patience& patience, bool copy_engines)
      : api_(api), peers_(peers), patience_(patience), copy_engines_(copy_engines) {}
  Communicators(const Communicators&) = delete;
  Communicators& operator=(const Communicators&) = delete;
  ~Communicators() { abort(); }

  /// The world. Collective over all ranks. `id_from_environment`: NCCL_COMM_ID names rank 0.
  Status open(bool id_from_environment);
  /// This rank's group of `groups` is `id` from now on. Collective over all ranks.
  Status split(CommunicatorId id, const RankGroups& groups, const std::string& name);

  NcclComm world() const { return world_; }
  NcclComm at(CommunicatorId id) const { return groups_.at(id); }

  /// The result of a call that says by its code whether `comm` is still busy with it.
  Status finish_call(NcclComm comm, int code, const char* call);
  /// The result of a call after which `comm` may be busy whatever its code says: splits and
  /// registrations.
  Status await(NcclComm comm, int code, const char* call);
  /// Whether any of them has failed meanwhile.
  Status check() const;
  /// Ends them in order. Collective over all ranks.
  Status close();
  /// Ends them at once, with what is under way.
  void abort();

 private:
  Status close(NcclComm& comm);

  const NcclApi& api_;
  CudaPeers& peers_;
  Patience& patience_;
  const bool copy_engines_;
  NcclComm world_ = nullptr;
  std::map<CommunicatorId, NcclComm> groups_;  // NCCL fills them in while it works
};

}  // namespace tessera
