// SPDX-License-Identifier: Apache-2.0
// Clocks of several machines, as rank 0 would have read them.
//
// The idea: nothing arrives before it was sent (Cristian 1989, "Probabilistic clock
// synchronization"). Every exchange of messages, and every collective that needs data of all,
// bounds by how much a clock is ahead. A rank's offset is in the middle of the first exchange's
// bounds and moves only when a later collective contradicts it; in between it is a line, so that
// drifting clocks follow without a jump and times never go backwards.
#pragma once

#include <deque>
#include <vector>

#include "tessera/types.h"

namespace tessera {

class ClockAlignment {
 public:
  explicit ClockAlignment(Rank ranks) : ranks_(static_cast<std::size_t>(ranks)) {}

  /// Rank 0 sent something at `sent`, `rank` got it and answered at `seen`, which was back at
  /// `back`. As often as one likes, before anything is aligned.
  void exchange(Rank rank, Time sent, Time seen, Time back);
  /// What `rank` did until `until` (its time) shows that its clock is ahead by at least `lowest`
  /// and at most `highest`.
  void bound(Rank rank, Time lowest, Time highest, Time until);

  /// In rank 0's time.
  Time aligned(Rank rank, Time local) const;

 private:
  struct Knot {
    Time local = 0;
    Time ahead = 0;
  };
  struct Line {
    Time lowest, highest;  // of the exchanges
    std::deque<Knot> knots;
    Line();
  };
  Line& line(Rank rank) { return ranks_[static_cast<std::size_t>(rank)]; }

  std::vector<Line> ranks_;
};

}  // namespace tessera
