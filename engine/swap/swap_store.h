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
#include "tessera/runtime.h"

namespace tessera {

/// Makes the options of every file that is opened: for tests, and for what a program asks.
using SwapFileMaker = std::function<SwapFileOptions()>;

class SwapStore {
 public:
  explicit SwapStore(SwapFileMaker options = {}) : options_(std::move(options)) {}

  /// Fails: invalid_argument (no folder was named), io_error (it cannot be written).
  Status allocate(BufferId buffer, const Allocation& request, Rank rank);
  void release(BufferId buffer, Rank rank);
  bool holds(BufferId buffer) const { return slots_.contains(buffer); }

  /// The whole buffer. Fails: io_error.
  Status write(BufferId buffer, Rank rank, std::span<const std::byte> data);
  Status read(BufferId buffer, Rank rank, std::span<std::byte> data);

 private:
  struct Place {
    SwapFile* file = nullptr;
    SlotId slot;
  };
  SwapFileMaker options_;
  std::map<std::pair<std::string, Rank>, std::unique_ptr<SwapFile>> files_;
  std::map<BufferId, std::map<Rank, Place>> slots_;
};

}  // namespace tessera
