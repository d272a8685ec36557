// SPDX-License-Identifier: Apache-2.0
#include "engine/backends/host/clock_alignment.h"

#include <algorithm>
#include <limits>

#include "tessera/assert.h"

namespace tessera {
namespace {

// The last knots of a line are enough: operations of a step may begin before those of earlier steps
// have ended, but not by many steps.
constexpr std::size_t knots_kept = 16;

Time middle(Time a, Time b) { return a + (b - a) / 2; }

}  // namespace

ClockAlignment::Line::Line()
    : lowest(std::numeric_limits<Time>::min()), highest(std::numeric_limits<Time>::max()) {}

// `seen` lies between `sent` and `back` of rank 0's clock, which bounds the difference from both
// sides. The fastest exchange gives the tightest bounds, so the best of several is kept.
void ClockAlignment::exchange(Rank rank, Time sent, Time seen, Time back) {
  Line& l = line(rank);
  TESSERA_ASSERT(l.knots.size() <= 1, "exchanges come before the bounds of the first step");
  l.lowest = std::max(l.lowest, seen - back);
  l.highest = std::min(l.highest, seen - sent);
  // All exchanges happen within milliseconds, in which clocks do not drift: one knot for all.
  l.knots = {{seen, middle(l.lowest, l.highest)}};
}

void ClockAlignment::bound(Rank rank, Time lowest, Time highest, Time until) {
  Line& l = line(rank);
  // The offset stays where it was if the new bounds allow it, else it moves to the nearer one:
  // noise does not move it, only drift that contradicts it.
  if (l.knots.empty()) l.knots.push_back({until, middle(lowest, highest)});
  const Knot last = l.knots.back();
  if (until <= last.local) return;
  // Bounds of one step cross if the clock has drifted within it; the middle is then the best guess.
  Time ahead = lowest > highest ? middle(lowest, highest) : std::clamp(last.ahead, lowest, highest);
  // Aligned time is local - ahead. An offset that changes by less than the local time in between
  // keeps it growing, so that even a clock that jumps does not make time run backwards.
  const Time most = (until - last.local) / 2;
  ahead = std::clamp(ahead, last.ahead - most, last.ahead + most);
  l.knots.push_back({until, ahead});
  if (l.knots.size() > knots_kept) l.knots.pop_front();
}

Time ClockAlignment::aligned(Rank rank, Time local) const {
  const auto& knots = ranks_[static_cast<std::size_t>(rank)].knots;
  if (knots.empty()) return local;
  // Between two knots the offset is interpolated; before the first and behind the last it is
  // constant.
  const auto after = std::find_if(knots.begin(), knots.end(),
                                  [local](const Knot& knot) { return knot.local >= local; });
  if (after == knots.end()) return local - knots.back().ahead;
  if (after == knots.begin() || after->ahead == std::prev(after)->ahead) {
    return local - after->ahead;
  }
  const Knot& before = *std::prev(after);
  const double part =
      static_cast<double>(local - before.local) / static_cast<double>(after->local - before.local);
  const auto moved = static_cast<Time>(part * static_cast<double>(after->ahead - before.ahead));
  return local - before.ahead - moved;
}

}  // namespace tessera
