// SPDX-License-Identifier: Apache-2.0
#include "engine/cuda/device_file_task.h"

namespace tessera {

Result<DeviceFileTask::Stage> DeviceFileTask::step(const Piece& piece) {
  SwapFile& file = *piece.slot.file;
  switch (stage_) {
    case Stage::begins:
      if (writes_) return Stage::waits_for_turn;
      transfer_ = file.start_read_to_device(piece.slot.id, piece.device);
      return Stage::moves;
    case Stage::waits_for_turn:
      if (sums_.busy()) return stage_;
      TESSERA_TRY(sums_.start(piece.device, file.block_size()));
      return Stage::sums;
    case Stage::sums: {
      TESSERA_ASSIGN(const bool ready, sums_.ready());
      if (!ready) return stage_;
      const auto sums = sums_.sums();
      if (!writes_) TESSERA_TRY(file.check(piece.slot.id, sums));
      if (!writes_) return Stage::is_over;
      transfer_ =
          file.start_write_from_device(piece.slot.id, piece.device, {sums.begin(), sums.end()});
      return Stage::moves;
    }
    case Stage::moves: {
      TESSERA_ASSIGN(const bool moved, file.test(transfer_));
      if (!moved) return stage_;
      return writes_ ? Stage::is_over : Stage::waits_for_turn;
    }
    case Stage::is_over: break;
  }
  return Stage::is_over;
}

Result<bool> DeviceFileTask::advance() {
  while (next_ < pieces_.size()) {
    TESSERA_ASSIGN(const Stage now, step(pieces_[next_]));
    if (now == stage_) return false;
    stage_ = now;
    if (now != Stage::is_over) continue;
    stage_ = Stage::begins;
    ++next_;
  }
  return true;
}

}  // namespace tessera
