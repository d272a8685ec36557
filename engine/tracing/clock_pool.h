// SPDX-License-Identifier: Apache-2.0
// Clocks of all ranks, shared and recycled: an event's time is the clock its stream had then, so
// clocks are never changed once made, only replaced.
//
// The idea: an operation makes a clock or two and drops as many, and few ranks are written faster
// than memory is found. So the count of a clock's users is within it, and who drops the last gives
// it back with everything that it owns. A pool and its clocks belong to one thread at a time.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "tessera/types.h"

namespace tessera {

class ClockPool;

/// Times of all ranks, with bounds that need no pass over them: most waits are decided by the
/// bounds alone.
struct ClockData {
  explicit ClockData(std::size_t ranks) : times(ranks) {}

  std::vector<Time> times;
  Time lowest = 0;   // no time is lower
  Time highest = 0;  // no time is higher

  Time* data() { return times.data(); }
  const Time* data() const { return times.data(); }
  Time operator[](std::size_t rank) const { return times[rank]; }

 private:
  friend class ClockPool;
  template <class Data>
  friend class SharedClock;
  struct Home;

  mutable std::int32_t users_ = 0;
  Home* home_ = nullptr;
};

/// Where the clocks of a pool come from and go to; it outlives both.
struct ClockData::Home {
  std::size_t ranks = 0;
  std::size_t out = 0;  // clocks that somebody has
  bool closed = false;  // the pool is gone
  std::vector<std::unique_ptr<ClockData>> free;

  static void take_back(ClockData* clock) {
    Home* const home = clock->home_;
    home->free.emplace_back(clock);
    if (--home->out == 0 && home->closed) delete home;
  }
};

/// A user of a clock.
template <class Data>
class SharedClock {
 public:
  SharedClock() = default;
  SharedClock(std::nullptr_t) {}
  SharedClock(const SharedClock& other) : SharedClock(other.data_) {}
  SharedClock(SharedClock&& other) noexcept : data_(std::exchange(other.data_, nullptr)) {}
  template <class Other>
  SharedClock(const SharedClock<Other>& other) : SharedClock(other.data_) {}
  template <class Other>
  SharedClock(SharedClock<Other>&& other) noexcept : data_(std::exchange(other.data_, nullptr)) {}
  SharedClock& operator=(SharedClock other) noexcept {
    std::swap(data_, other.data_);
    return *this;
  }
  ~SharedClock() {
    if (data_ == nullptr || --data_->users_ > 0) return;
    ClockData::Home::take_back(const_cast<ClockData*>(data_));
  }

  Data* operator->() const { return data_; }
  Data& operator*() const { return *data_; }
  explicit operator bool() const { return data_ != nullptr; }
  bool operator==(const SharedClock&) const = default;  // the same clock, not the same times

 private:
  friend class ClockPool;
  template <class Other>
  friend class SharedClock;
  explicit SharedClock(Data* data) : data_(data) {
    if (data_ != nullptr) ++data_->users_;
  }

  Data* data_ = nullptr;
};

/// An immutable array of times, one per rank.
using Clock = SharedClock<const ClockData>;

class ClockPool {
 public:
  explicit ClockPool(std::size_t ranks) : home_(new ClockData::Home{.ranks = ranks, .free = {}}) {}
  ClockPool(const ClockPool&) = delete;
  ClockPool& operator=(const ClockPool&) = delete;
  ~ClockPool() {
    home_->closed = true;
    if (home_->out == 0) delete home_;
  }

  /// An array with unspecified content, to be filled and then shared as a Clock.
  SharedClock<ClockData> take() {
    if (home_->free.empty()) {
      home_->free.push_back(std::make_unique<ClockData>(home_->ranks));
      home_->free.back()->home_ = home_;
    }
    ++home_->out;
    ClockData* const clock = home_->free.back().release();
    home_->free.pop_back();
    return SharedClock<ClockData>(clock);
  }
  Clock zero() {
    auto clock = take();
    std::fill(clock->times.begin(), clock->times.end(), 0);
    clock->lowest = clock->highest = 0;
    return clock;
  }

 private:
  ClockData::Home* home_;
};

}  // namespace tessera
