// SPDX-License-Identifier: Apache-2.0
// When what was recorded is committed, so that a kill costs less than a quarter second.
//
//   CommitSchedule schedule(true);
//   schedule.begin(now);
//   schedule.recorded(bytes);
//   if (schedule.due(now)) ...  // commit
//   schedule.committed(began, now);
#pragma once

#include <algorithm>
#include <cstddef>
#include <utility>

#include "tessera/types.h"

namespace tessera::storage {

class CommitSchedule {
 public:
  /// Without a clock all times are 0, and bytes decide.
  explicit CommitSchedule(bool has_clock) : has_clock_(has_clock) {}

  void begin(Time now) { last_ = now; }
  void recorded(std::size_t bytes) { uncommitted_ += bytes; }

  bool due(Time now) const {
    if (first_ && uncommitted_ > 0) return true;  // what run it is
    return has_clock_ ? now >= due_at() : uncommitted_ >= bytes_per_commit;
  }

  /// How long calls may be waited for: no longer than until a commit is due, ns.
  Time patience(Time now) const {
    return has_clock_ ? std::clamp<Time>(due_at() - now, 0, interval) : interval;
  }

  /// Whether a commit has to begin now, with what it has got.
  bool late(Time now) const { return has_clock_ && now - last_ >= latest - took_; }

  /// Whether there is something to commit; it is as good as committed.
  bool take() {
    first_ = false;
    return std::exchange(uncommitted_, 0) > 0;
  }
  void committed(Time began, Time now) {
    last_ = now;
    took_ = now - began;
  }

 private:
  // Well below a quarter second.
  static constexpr Time interval = 150'000'000;
  // Where many lanes are open a commit takes long: it then has this share of the thread, as far as
  // the end of the next one is less than this after the end of the last.
  static constexpr Time intervals_per_commit = 4;
  static constexpr Time latest = 240'000'000;
  static constexpr std::size_t bytes_per_commit = 64 << 20;

  Time due_at() const {
    return last_ +
           std::clamp(intervals_per_commit * took_, interval, std::max(interval, latest - took_));
  }

  const bool has_clock_;
  bool first_ = true;
  std::size_t uncommitted_ = 0;  // bytes of calls
  Time last_ = 0, took_ = 0;     // the last commit's end and duration
};

}  // namespace tessera::storage
