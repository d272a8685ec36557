// SPDX-License-Identifier: Apache-2.0
// How far clocks are apart, from collectives that their owners ended together.
//
// The idea: nobody has all of an all_gather before the last has come, so members end at about the
// same time, and the usual distance of two clocks' ends is that of the clocks.
//
//   ClockOffsets clocks(meetings, 4);
//   clocks.find();
//   time += clocks.offset(3);
#pragma once

#include <cstddef>
#include <vector>

#include "tessera/types.h"

namespace tessera::exchange {

struct ClockMeeting {
  std::size_t clock = 0;
  Time begin = 0, end = 0;  // of the collective by this clock, ns
};
/// Who met in which collective.
using ClockMeetings = std::vector<std::vector<ClockMeeting>>;

class ClockOffsets {
 public:
  /// `meetings` are of two clocks or more and must outlive this.
  ClockOffsets(const ClockMeetings& meetings, std::size_t clocks)
      : meetings_(meetings), offsets_(clocks), found_(clocks) {}

  /// Clocks that met another, starting with the first, which stays as the others do.
  void find();
  /// Whether by these clocks somebody left before somebody else had come.
  bool contradicted() const;
  /// How far ends of one collective still are from their middle, the median over all, ns.
  Time spread() const;

  bool found(std::size_t clock) const { return found_[clock]; }
  /// ns to add.
  Time offset(std::size_t clock) const { return offsets_[clock]; }

 private:
  std::size_t nearest() const;
  Time distance_to_found(std::size_t clock) const;
  void settle();

  const ClockMeetings& meetings_;
  std::vector<Time> offsets_;
  std::vector<bool> found_;
};

}  // namespace tessera::exchange
