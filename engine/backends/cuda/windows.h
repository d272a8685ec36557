// SPDX-License-Identifier: Apache-2.0
// Symmetric windows: device memory that is registered with NCCL, which then reads and writes it
// without copies of its own.
//
// The idea: placement is computed for all ranks everywhere, so every rank knows which segments of
// memory are the same on all ranks, and whether a buffer has the same offset. Such segments are
// registered with a communicator before its next collective, which all members reach in one order.
// From the first segment on that differs between ranks, no further one is registered.
#pragma once

#include <deque>
#include <map>
#include <string>
#include <vector>

#include "engine/backends/cuda/communicators.h"
#include "engine/backends/cuda/device_memory.h"

namespace tessera {

/// Finds the end of the device memory that has grown equally on all ranks.
class EqualGrowth {
 public:
  explicit EqualGrowth(Rank ranks) : ranks_(ranks) {}

  /// Notes that `ranks` ranks of one class have placed `buffer` and have reserved `reserved` bytes.
  void placed(BufferId buffer, Rank ranks, Bytes reserved);
  /// The end of the segments that are the same on all ranks.
  Bytes end();

 private:
  void close();

  const Rank ranks_;
  BufferId buffer_;   // the buffer that is being placed
  Rank counted_ = 0;  // ranks that have placed it so far
  Bytes reserved_{};
  bool equal_ = true;  // those ranks have reserved equally much
  bool ended_ = false;
  Bytes end_{};
};

class Windows {
 public:
  Windows(const NcclApi& api, Communicators& communicators)
      : api_(api), communicators_(communicators) {}

  /// Fails: not_supported (an NCCL older than 2.27).
  Status open();
  bool is_open() const { return open_; }
  /// Registers the segments up to `end` with a communicator. Collective over its members.
  Status cover(CommunicatorId id, const DeviceMemory& memory, Bytes end);
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
  std::map<CommunicatorId, std::size_t> covered_;  // how many segments
  std::deque<Known> known_;
};

}  // namespace tessera
