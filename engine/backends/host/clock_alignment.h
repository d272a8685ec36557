// SPDX-License-Identifier: Apache-2.0
// Converts times of the ranks' clocks, on several machines, to rank 0's clock.
//
// The idea: no message arrives before it was sent (Cristian 1989, "Probabilistic clock
// synchronization"). So every exchange of messages, and every collective that needs data of all its
// members, bounds by how much a clock is ahead. A rank's offset starts in the middle of the bounds
// of the first exchanges and moves only when a later collective contradicts it; in between it is
// linear, so that times follow drifting clocks without a jump and never go backwards.
#pragma once

#include <deque>
#include <vector>

#include "tessera/types.h"

namespace tessera {

class ClockAlignment {
 public:
  explicit ClockAlignment(Rank ranks) : ranks_(static_cast<std::size_t>(ranks)) {}

  /// Rank 0 sent a message at `sent`, `rank` received it and answered at `seen` (its clock), and
  /// the answer arrived at `back`. May be called any number of times before the first `bound`.
  void exchange(Rank rank, Time sent, Time seen, Time back);
  /// The collectives of `rank` up to `until` (its clock) show that its clock is ahead by at least
  /// `lowest` and at most `highest`. Calls for a rank come in the order of `until`.
  void bound(Rank rank, Time lowest, Time highest, Time until);

  /// The time of rank 0's clock when `rank`'s showed `local`.
  Time aligned(Rank rank, Time local) const;

 private:
  struct Knot {
    Time local = 0;
    Time ahead = 0;
  };
  struct Line {
    Time lowest, highest;  // bounds from the exchanges so far
    std::deque<Knot> knots;
    Line();
  };
  Line& line(Rank rank) { return ranks_[static_cast<std::size_t>(rank)]; }

  std::vector<Line> ranks_;
};

}  // namespace tessera
