// SPDX-License-Identifier: Apache-2.0
// What `rank_step` says of the steps that are compared: means by rank, who comes late, and what
// each step took.
#pragma once

#include <array>
#include <vector>

#include "tessera/analysis/trace.h"

namespace tessera::analysis {

/// The steps that are compared: the first, which gathers for the first time, only if it is alone.
struct ComparedSteps {
  std::int32_t first = 0, end = 0;
  std::int32_t count() const { return end - first; }
};

/// What the summary says of one run: means over steps, by rank of which something is known.
struct RankMeansOfSteps {
  std::vector<Rank> ranks;
  std::vector<Time> step, compute, exposed;
};

/// The rank that the others wait for: it is busy longest, with whatever is no collective.
struct LateRank {
  Rank rank = 0;
  Time late = 0;          // more than the median rank, ns
  bool computing = true;  // that is by compute for the most part, else by the host, copies, I/O
};
LateRank late_rank_of(const RankMeansOfSteps& means);

/// What each step of a run took, ns: how much they differ is what chance does.
struct BySteps {
  std::vector<Time> compute, other, late, waiting;
  std::array<std::vector<Time>, static_cast<std::size_t>(op_kind_last) + 1> transfer;

  std::vector<Time> all_transfers() const {
    std::vector<Time> sums(waiting.size());
    for (const auto& kind : transfer) {
      for (std::size_t s = 0; s < sums.size(); ++s) sums[s] += kind[s];
    }
    return sums;
  }
};

std::vector<Rank> recorded_in_both(const Trace& a, const Trace& b);

/// Means over all of them; adds each by itself to `by`. Fails: as Trace::for_each_step.
Result<RankMeansOfSteps> means_of_steps(const Trace& trace, const ComparedSteps& steps,
                                        BySteps& by);

}  // namespace tessera::analysis
