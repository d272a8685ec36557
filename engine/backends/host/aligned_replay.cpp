// SPDX-License-Identifier: Apache-2.0
#include "engine/backends/host/aligned_replay.h"

#include <algorithm>
#include <limits>

namespace tessera {

Bytes AlignedReplay::Step::size() const {
  const std::size_t bytes = all.size() * sizeof(Time) + exchanges.size() * sizeof(Exchange) +
                            items.size() * sizeof(TraceItem);
  return Bytes{static_cast<std::int64_t>(bytes)};
}

// Nobody leaves such a collective before everybody has entered it.
void AlignedReplay::tighten(const Step& step) {
  struct Bounds {
    Time lowest = std::numeric_limits<Time>::min();
    Time highest = std::numeric_limits<Time>::max();
    bool met = false;
  };
  std::vector<Bounds> bounds(ranks_);
  for (const Exchange& exchange : step.exchanges) {
    const Time begin = step.all[2 * exchange.place];
    const Time end = step.all[2 * exchange.place + 1];
    for (Rank rank : *exchange.members) {
      const auto r = static_cast<std::size_t>(rank);
      const Time* theirs = step.of(r) + 2 * exchange.place;
      bounds[r].lowest = std::max(bounds[r].lowest, theirs[0] - end);
      bounds[r].highest = std::min(bounds[r].highest, theirs[1] - begin);
      bounds[r].met = true;
    }
  }
  for (std::size_t r = 1; r < ranks_; ++r) {
    if (!bounds[r].met) continue;
    // No time beyond it is asked for before the next step is there.
    const Time until = *std::max_element(step.of(r), step.of(r) + 2 * step.count);
    clocks_.bound(static_cast<Rank>(r), bounds[r].lowest, bounds[r].highest, until);
  }
}

void AlignedReplay::play(Step& step, TraceSink& sink) {
  tighten(step);
  std::size_t k = 0;
  const auto next = [&](std::span<Time> begin, std::span<Time> end) {
    for (std::size_t r = 0; r < ranks_; ++r) {
      const auto rank = static_cast<Rank>(r);
      const Time* theirs = step.of(r) + 2 * k;
      begin[r] = std::max<Time>(0, clocks_.aligned(rank, theirs[0]) - start_);
      end[r] = std::max(begin[r], clocks_.aligned(rank, theirs[1]) - start_);
    }
    ++k;
  };
  replay_.play(std::exchange(step.items, {}), next, sink);
}

}  // namespace tessera
