// SPDX-License-Identifier: Apache-2.0
// Symmetric windows: device memory that is registered with NCCL, which then reads and writes it
// without copies of its own.
//
// The idea: NCCL finds a window by where a buffer begins, and up to 2.30 a window ends where a
// piece of memory ends that was mapped at once. So all the memory that buffers may ever have is one
// piece, as large on every rank, and a buffer that begins in its window ends there, too. It is
// registered with a communicator before its first collective, which all members reach in one order.
#pragma once

#include <deque>
#include <set>
#include <span>

#include "engine/backends/cuda/communicators.h"
#include "tessera/cuda_runtime.h"

namespace tessera {

class Windows {
 public:
  Windows(const NcclApi& api, Communicators& communicators)
      : api_(api), communicators_(communicators) {}

  /// Fails: not_supported (an NCCL older than 2.27).
  Status open();
  bool is_open() const { return open_; }
  /// Registers `memory`, always the same, with a communicator, once. Collective over its members.
  Status cover(CommunicatorId id, std::span<std::byte> memory);
  /// Deregisters all windows. Call it before communicators are closed.
  Status close();

 private:
  struct Known {
    NcclComm comm = nullptr;
    NcclWindow handle = nullptr;  // NCCL fills it in while it works
  };

  const NcclApi& api_;
  Communicators& communicators_;
  bool open_ = false;
  std::set<CommunicatorId> covered_;
  std::deque<Known> known_;
};

/// Fails: invalid_argument (windows and what excludes them are both asked for).
Status check_windows(const CudaOptions& options);

/// Whether buffers are to be registered: as asked, or where it costs nothing.
bool wants_windows(const CudaOptions& options, const NcclApi& nccl);

}  // namespace tessera
