// SPDX-License-Identifier: Apache-2.0
// What a stream has been given and not finished, as far as it holds the host back.
//
// The idea: a stream of CUDA takes about a thousand launches, and whoever makes one more is blocked
// until it has finished one. Launches are counted in lots, of which only the end of the last
// operation is kept: so a queue holds a few clocks, however many operations it is.
//
//   LaunchQueue queue(1'024);
//   while (Clock done = queue.next_wait()) host_waits_for(done);
//   queue.add(kernels, end);
#pragma once

#include <cstdint>
#include <deque>
#include <utility>

#include "engine/tracing/clock_pool.h"

namespace tessera::sim {

class LaunchQueue {
 public:
  /// 0 entries: any number.
  explicit LaunchQueue(std::int64_t entries) : entries_(entries) {}

  /// The host has made so many launches, of which the last is over at `end`.
  void add(std::int64_t launches, const Clock& end) {
    if (entries_ == 0 || launches == 0) return;
    const bool opens = lots_.empty() || made_ - lots_.back().from >= lot();
    if (opens) lots_.push_back({made_, made_, end});
    made_ += launches;
    lots_.back().to = made_;
    lots_.back().end = end;
  }
  /// What the host waits for before it makes more, once: the end of a lot behind which as many
  /// launches were made as there are entries. Null: there is room.
  Clock next_wait() {
    if (lots_.empty() || made_ - lots_.front().to < entries_) return nullptr;
    Clock end = std::move(lots_.front().end);
    lots_.pop_front();
    return end;
  }

 private:
  struct Lot {
    std::int64_t from, to;  // numbers of its launches
    Clock end;
  };
  std::int64_t lot() const { return entries_ / 8; }

  const std::int64_t entries_;
  std::int64_t made_ = 0;
  std::deque<Lot> lots_;
};

}  // namespace tessera::sim
