// SPDX-License-Identifier: Apache-2.0
// A copy from or to NVMe while the drive works.
#pragma once

#include <vector>

#include "engine/backends/host/running_task.h"
#include "engine/swap/swap_store.h"

namespace tessera {

/// It is over only when all its moves are, even after an error: a drive must not write to memory
/// that the error has released.
class FileTask final : public RunningTask {
 public:
  explicit FileTask(std::vector<SwapMove> moves) : moves_(std::move(moves)) {}

  Result<bool> advance() override {
    std::erase_if(moves_, [this](const SwapMove& move) {
      const auto over = move.file->test(move.transfer);
      if (!over.ok() && failed_.ok()) failed_ = over.status();
      return !over.ok() || *over;
    });
    if (!moves_.empty()) return false;
    TESSERA_TRY(failed_);
    return true;
  }

 private:
  std::vector<SwapMove> moves_;
  Status failed_;
};

}  // namespace tessera
