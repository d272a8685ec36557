// SPDX-License-Identifier: Apache-2.0
// Ranks as threads of which exactly one runs at a time. Who is next follows from a seed, so a run
// with several ranks repeats to the last step.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <vector>

#include "tests/random.h"

namespace tessera::test {

class Turns {
 public:
  explicit Turns(std::uint64_t seed) : random_(seed) {}

  /// Runs `program` for ranks 0 to `ranks` - 1 until all have returned.
  void run(int ranks, const std::function<void(int)>& program);
  /// Lets somebody go on, perhaps the caller. Outside of `run`: nothing.
  void yield();
  /// The rank whose turn it is.
  int current() const { return turn_; }

 private:
  void pass_on();

  Random random_;
  std::mutex mutex_;
  std::deque<std::condition_variable> called_;  // by rank
  std::vector<bool> alive_;
  int turn_ = 0;
};

}  // namespace tessera::test
