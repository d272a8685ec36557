// SPDX-License-Identifier: Apache-2.0
// What a rank on a GPU asks of the others beside NCCL: the first bytes, and word when one gives up.
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

  /// `data` of rank 0 to all, without waiting: call again until it is true.
  virtual Result<bool> share(std::span<std::byte> data) = 0;
  /// Ends the run of all ranks. Whoever calls first is heard.
  virtual void abort(const Status& why) = 0;
  /// Why another rank has ended the run; or ok.
  virtual Status ended() = 0;
  /// Nothing could be done: give the processor to somebody else for a moment.
  virtual void idle() = 0;
  /// Bytes between ranks, beside NCCL: for traces. Null: nothing but NCCL connects them.
  virtual Transport* transport() = 0;
};

}  // namespace tessera
