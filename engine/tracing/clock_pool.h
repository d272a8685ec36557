// SPDX-License-Identifier: Apache-2.0
// Clocks of all ranks, shared and recycled: an event's time is the clock its stream had then, so
// clocks are never changed once made, only replaced.
//
// The idea: an operation makes a clock or two and drops as many, and few ranks are written faster
// than memory is found. So the count of a clock's users is within it, and who drops the last gives
// it back with everything that it owns. A pool and its clocks belong to one thread at a time.
//
// Most clocks are the one before and a duration, and nobody asks for more than their bounds. So
// times are worked out when somebody does, those of all clocks in between in one pass.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "engine/tracing/clock_kernels.h"
#include "tessera/types.h"

namespace tessera {

/// Times of all ranks, with bounds that need no pass over them: most waits are decided by the
/// bounds alone.
class ClockData {
 public:
  /// Where the clocks of a pool come from and go to; it outlives both.
  struct Home {
    std::size_t ranks = 0;
    std::size_t out = 0;  // clocks that somebody has
    bool closed = false;  // the pool is gone
    std::vector<std::unique_ptr<ClockData>> free;
  };

  explicit ClockData(Home* home) : home_(home), times_(home->ranks) {}
  ClockData(const ClockData&) = delete;
  ClockData& operator=(const ClockData&) = delete;

  Time lowest = 0;   // no time is lower
  Time highest = 0;  // no time is higher

  std::vector<Time>& times() { return times_; }
  const std::vector<Time>& times() const {
    if (kind_ != Kind::known) work_out();
    return times_;
  }
  Time* data() { return times_.data(); }
  const Time* data() const { return times().data(); }
  Time operator[](std::size_t rank) const { return times()[rank]; }

  /// Makes it the same time for all ranks.
  void become(Time time);
  /// Makes it of every rank the time in `before` and then the step's duration.
  void become(ClockData& before, const ClockStep& step);

  void keep() { ++users_; }
  void drop() {
    if (--users_ == 0) take_back();
  }

 private:
  enum class Kind : std::uint8_t {
    known,
    same,   // `lowest`, for all ranks
    later,  // than `before_`, by `step_`
  };
  void work_out() const;
  void take_back();

  std::int32_t users_ = 0;
  mutable Kind kind_ = Kind::known;
  std::int32_t steps_ = 0;  // up to here, since the last one that was not `later`
  ClockStep step_;
  mutable ClockData* before_ = nullptr;  // kept
  Home* const home_;
  mutable std::vector<Time> times_;  // known
};

class ClockPool {
 public:
  /// A user of a clock.
  template <class Data>
  class Shared {
   public:
    Shared() = default;
    Shared(std::nullptr_t) {}
    explicit Shared(ClockData* clock) : clock_(clock) {
      if (clock_ != nullptr) clock_->keep();
    }
    Shared(const Shared& other) : Shared(other.clock_) {}
    Shared(Shared&& other) noexcept : clock_(std::exchange(other.clock_, nullptr)) {}
    Shared& operator=(Shared other) noexcept {
      std::swap(clock_, other.clock_);
      return *this;
    }
    ~Shared() {
      if (clock_ != nullptr) clock_->drop();
    }
    operator Shared<const Data>() const { return Shared<const Data>(clock_); }

    Data* operator->() const { return clock_; }
    Data& operator*() const { return *clock_; }
    explicit operator bool() const { return clock_ != nullptr; }
    bool operator==(const Shared&) const = default;  // the same clock, not the same times
    /// What others may keep, too.
    ClockData* shared() const { return clock_; }

   private:
    ClockData* clock_ = nullptr;
  };

  explicit ClockPool(std::size_t ranks) : home_(new ClockData::Home{.ranks = ranks, .free = {}}) {}
  ClockPool(const ClockPool&) = delete;
  ClockPool& operator=(const ClockPool&) = delete;
  ~ClockPool() {
    home_->closed = true;
    if (home_->out == 0) delete home_;
  }

  /// An array with unspecified content, to be filled and then shared as a Clock.
  Shared<ClockData> take() {
    if (home_->free.empty()) home_->free.push_back(std::make_unique<ClockData>(home_));
    ++home_->out;
    ClockData* const clock = home_->free.back().release();
    home_->free.pop_back();
    return Shared<ClockData>(clock);
  }
  /// The same time for all ranks.
  Shared<const ClockData> same(Time time) {
    auto clock = take();
    clock->become(time);
    return clock;
  }
  /// Of every rank the time in `before` and then the step's duration.
  Shared<const ClockData> after(const Shared<const ClockData>& before, const ClockStep& step) {
    auto clock = take();
    clock->become(*before.shared(), step);
    return clock;
  }

 private:
  ClockData::Home* home_;
};

/// An immutable array of times, one per rank.
using Clock = ClockPool::Shared<const ClockData>;

}  // namespace tessera
