// SPDX-License-Identifier: Apache-2.0
// Device memory that NCCL knows, so that it reads and writes there without copies of its own.
//
// The idea: placement is computed for all ranks everywhere, so every rank knows which segments of
// memory are the same on all of them, and whether a buffer has the same offset. Such segments are
// made known to a communicator before its next collective, which all members come to in one order;
// from the first one on that only some ranks have, none is.
#pragma once

#include <deque>
#include <map>
#include <string>
#include <vector>

#include "engine/backends/cuda/communicators.h"
#include "engine/backends/cuda/device_memory.h"

namespace tessera {

/// How far device memory has grown alike on all ranks.
class EqualGrowth {
 public:
  explicit EqualGrowth(Rank ranks) : ranks_(ranks) {}

  /// `ranks` of one class have `buffer` now, and take `reserved` altogether.
  void placed(BufferId buffer, Rank ranks, Bytes reserved);
  /// The segments up to here are the same on all ranks.
  Bytes end();

 private:
  void close();

  const Rank ranks_;
  BufferId buffer_;  // whose placement is being told
  Rank told_ = 0;
  Bytes reserved_{};
  bool equal_ = true;  // those that were told
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
  /// Segments up to `end` are known to a communicator from now on. Collective over its members.
  Status cover(CommunicatorId id, const DeviceMemory& memory, Bytes end);
  /// Before communicators are closed in order.
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
