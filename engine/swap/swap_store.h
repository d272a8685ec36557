// SPDX-License-Identifier: Apache-2.0
// Buffers in Memory::nvme where numbers are real: slots of one file per rank and folder.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "engine/swap/swap_file.h"
#include "tessera/offload.h"
#include "tessera/runtime.h"

namespace tessera {

/// The place of a buffer.
struct SwapSlot {
  SwapFile* file = nullptr;
  SlotId id;
};

/// A copy from or to NVMe that has started.
struct SwapMove {
  SwapFile* file = nullptr;
  TransferId transfer;
};

class SwapStore {
 public:
  /// `io` makes the BlockIo of every file that is opened; without it files use the system's.
  SwapStore(const Aio& aio, std::function<std::unique_ptr<BlockIo>()> io,
            std::function<Time()> clock = {})
      : aio_(aio), io_(std::move(io)), clock_(std::move(clock)) {}

  /// Fails: invalid_argument (no folder was named), io_error (it cannot be written).
  Status allocate(BufferId buffer, const Allocation& request, Rank rank);
  void release(BufferId buffer, Rank rank);
  bool holds(BufferId buffer) const { return slots_.contains(buffer); }

  /// REQUIRES: the buffer was allocated and not released.
  SwapSlot slot_of(BufferId buffer, Rank rank) const { return slots_.at(buffer).at(rank); }

  /// Carries out a copy from or to NVMe; `host` is its side in host memory. Waits for it.
  /// Fails: io_error.
  Status move(const CopyBlocks& blocks, CopyRoute route, Rank rank, std::span<std::byte> host);
  /// Only starts the copy; SwapFile::test and finish say when it is over. Copies between NVMe and
  /// device memory call the file of `slot_of` themselves.
  SwapMove start(const CopyBlocks& blocks, CopyRoute route, Rank rank, std::span<std::byte> host);
  /// Waits until a block of any file has moved. Returns false if none is under way.
  bool wait();
  /// Leaks the files whose blocks are under way, with the memory that those blocks use, until the
  /// process ends. Returns whether there are any. For a run that gave up and cannot wait.
  bool abandon_moving();

 private:
  SwapFileOptions options() const;

  const Aio aio_;
  const std::function<std::unique_ptr<BlockIo>()> io_;
  const std::function<Time()> clock_;
  std::map<std::pair<std::string, Rank>, std::unique_ptr<SwapFile>> files_;
  std::map<BufferId, std::map<Rank, SwapSlot>> slots_;
};

}  // namespace tessera
