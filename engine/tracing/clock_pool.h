// SPDX-License-Identifier: Apache-2.0
// Clocks of all ranks, shared and recycled: an event's time is the clock its stream had then, so
// clocks are never changed once made, only replaced.
#pragma once

#include <memory>
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

/// An immutable array of times, one per rank.
using Clock = std::shared_ptr<const ClockData>;

class ClockPool {
 public:
  explicit ClockPool(std::size_t ranks) : state_(std::make_shared<State>()) {
    state_->ranks = ranks;
  }

  /// An array with unspecified content, to be filled and then shared as a Clock.
  std::shared_ptr<ClockData> take() {
    std::unique_ptr<ClockData> data;
    if (state_->free.empty()) {
      data = std::make_unique<ClockData>(state_->ranks);
    } else {
      data = std::move(state_->free.back());
      state_->free.pop_back();
    }
    return {data.release(), [state = state_](ClockData* used) {
              state->free.push_back(std::unique_ptr<ClockData>(used));
            }};
  }

 private:
  struct State {
    std::size_t ranks = 0;
    std::vector<std::unique_ptr<ClockData>> free;
  };
  std::shared_ptr<State> state_;
};

}  // namespace tessera
