// SPDX-License-Identifier: Apache-2.0
// A drive that takes its time: as many looks as a test says, or until it is told to go on.
#pragma once

#include <unistd.h>

#include <cerrno>
#include <deque>

#include "engine/swap/block_io.h"

namespace tessera::test {

/// What drives of one test do.
struct DriveHabits {
  int looks = 0;        // before a block has moved
  bool stands = false;  // nothing moves
  int moved = 0;        // blocks
  int error = 0;        // instead of what is asked: of every block
};

class SlowDrive final : public BlockIo {
 public:
  explicit SlowDrive(DriveHabits& habits) : habits_(habits) {}

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
    const ssize_t moved = r.writes ? pwrite(r.file, r.data, r.size, r.offset)
                                   : pread(r.file, r.data, r.size, r.offset);
    return {r.tag, moved < 0 ? -errno : moved};
  }
  std::optional<BlockCompletion> poll() override {
    if (requests_.empty() || habits_.stands || ++looks_ <= habits_.looks) return {};
    return wait();
  }
  const char* name() const override { return "slow"; }

 private:
  DriveHabits& habits_;
  std::deque<BlockRequest> requests_;
  int looks_ = 0;
};

}  // namespace tessera::test
