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
};

class ClockPool {
  // A clock with the count of its users.
  struct Counted;

  // Where the clocks of a pool come from and go to; it outlives both.
  struct Home {
    std::size_t ranks = 0;
    std::size_t out = 0;  // clocks that somebody has
    bool closed = false;  // the pool is gone
    std::vector<std::unique_ptr<Counted>> free;
  };

  struct Counted : ClockData {
    explicit Counted(Home* from) : ClockData(from->ranks), home(from) {}

    void take_back() {
      Home* const from = home;
      from->free.emplace_back(this);
      if (--from->out == 0 && from->closed) delete from;
    }

    std::int32_t users = 0;
    Home* home;
  };

 public:
  /// A user of a clock.
  template <class Data>
  class Shared {
   public:
    Shared() = default;
    Shared(std::nullptr_t) {}
    explicit Shared(Counted* clock) : clock_(clock) {
      if (clock_ != nullptr) ++clock_->users;
    }
    Shared(const Shared& other) : Shared(other.clock_) {}
    Shared(Shared&& other) noexcept : clock_(std::exchange(other.clock_, nullptr)) {}
    Shared& operator=(Shared other) noexcept {
      std::swap(clock_, other.clock_);
      return *this;
    }
    ~Shared() {
      if (clock_ == nullptr || --clock_->users > 0) return;
      clock_->take_back();
    }
    operator Shared<const Data>() const { return Shared<const Data>(clock_); }

    Data* operator->() const { return clock_; }
    Data& operator*() const { return *clock_; }
    explicit operator bool() const { return clock_ != nullptr; }
    bool operator==(const Shared&) const = default;  // the same clock, not the same times

   private:
    Counted* clock_ = nullptr;
  };

  explicit ClockPool(std::size_t ranks) : home_(new Home{.ranks = ranks, .free = {}}) {}
  ClockPool(const ClockPool&) = delete;
  ClockPool& operator=(const ClockPool&) = delete;
  ~ClockPool() {
    home_->closed = true;
    if (home_->out == 0) delete home_;
  }

  /// An array with unspecified content, to be filled and then shared as a Clock.
  Shared<ClockData> take() {
    if (home_->free.empty()) home_->free.push_back(std::make_unique<Counted>(home_));
    ++home_->out;
    Counted* const clock = home_->free.back().release();
    home_->free.pop_back();
    return Shared<ClockData>(clock);
  }
  Shared<const ClockData> zero() {
    auto clock = take();
    std::fill(clock->times.begin(), clock->times.end(), 0);
    clock->lowest = clock->highest = 0;
    return clock;
  }

 private:
  Home* home_;
};

/// An immutable array of times, one per rank.
using Clock = ClockPool::Shared<const ClockData>;

}  // namespace tessera
