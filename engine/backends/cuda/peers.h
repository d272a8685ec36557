// SPDX-License-Identifier: Apache-2.0
// The connection of a rank on a GPU to the others besides NCCL: the first bytes (NCCL's id), and a
// message when a rank gives up.
#pragma once

#include <span>

#include "engine/backends/host/transport.h"
#include "tessera/status.h"
#include "tessera/types.h"

namespace tessera {

class CudaPeers {
 public:
  virtual ~CudaPeers() = default;
  virtual Rank rank() const = 0;
  virtual Rank ranks() const = 0;

  /// Broadcasts `data` of rank 0 without waiting. Call it again until it returns true.
  virtual Result<bool> share(std::span<std::byte> data) = 0;
  /// Ends the run of all ranks. The first call of any rank wins.
  virtual void abort(const Status& why) = 0;
  /// The reason why another rank has ended the run; or ok.
  virtual Status ended() = 0;
  /// Yields the processor for a moment, after a turn without progress.
  virtual void idle() = 0;
  /// A transport besides NCCL, for traces; null where only NCCL connects the ranks.
  virtual Transport* transport() = 0;
};

}  // namespace tessera
