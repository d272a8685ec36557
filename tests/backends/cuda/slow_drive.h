// SPDX-License-Identifier: Apache-2.0
// A drive that takes its time: as many looks as a test says, or until it is told to go on.
#pragma once

#include <deque>

#include "engine/swap/block_io.h"

namespace tessera::test {

/// The behaviour of the drives of one test.
struct DriveHabits {
  int looks = 0;         // before a block has moved
  bool stands = false;   // nothing moves
  int moved = 0;         // blocks
  int error = 0;         // instead of what is asked: of every block
  bool damages = false;  // what is read
};

class SlowDrive final : public BlockIo {
 public:
  SlowDrive(DriveHabits& habits, MoveBlock move) : habits_(habits), move_(std::move(move)) {}

  int start(const BlockRequest& request) override {
    requests_.push_back(request);
    return 0;
  }
  BlockCompletion wait() override {
    const BlockRequest r = requests_.front();
    requests_.pop_front();
    looks_ = 0;
    ++habits_.moved;
    if (habits_.error != 0) return {r.tag, -habits_.error};
    const std::int64_t moved = move_(r);
    if (habits_.damages && !r.writes) r.data[0] ^= std::byte{1};
    return {r.tag, moved};
  }
  std::optional<BlockCompletion> poll() override {
    if (requests_.empty() || habits_.stands || ++looks_ <= habits_.looks) return {};
    return wait();
  }
  const char* name() const override { return "slow"; }

 private:
  DriveHabits& habits_;
  const MoveBlock move_;
  std::deque<BlockRequest> requests_;
  int looks_ = 0;
};

}  // namespace tessera::test
