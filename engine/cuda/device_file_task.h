// SPDX-License-Identifier: Apache-2.0
// A copy between device memory and files while the drive works, and the device computes checksums:
// of what is written before, of what was read afterwards.
#pragma once

#include <span>
#include <vector>

#include "engine/cuda/device_sums.h"
#include "engine/host/running_task.h"
#include "engine/swap/swap_store.h"

namespace tessera {

class DeviceFileTask final : public RunningTask {
 public:
  struct Piece {
    SwapSlot slot;
    std::span<std::byte> device;
  };
  /// Moves one piece after another. `sums` must outlive it.
  DeviceFileTask(DeviceSums& sums, bool writes, std::vector<Piece> pieces)
      : sums_(sums), writes_(writes), pieces_(std::move(pieces)) {}

  Result<bool> advance() override;

 private:
  enum class Stage { begins, waits_for_turn, sums, moves, is_over };
  Result<Stage> step(const Piece& piece);  // the stage that it has come to

  DeviceSums& sums_;
  const bool writes_;
  const std::vector<Piece> pieces_;
  std::size_t next_ = 0;
  Stage stage_ = Stage::begins;
  TransferId transfer_;
};

}  // namespace tessera
