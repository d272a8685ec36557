// SPDX-License-Identifier: Apache-2.0
// What `rank_step` says of each step over all ranks, and of each rank over all steps.
//
// The idea: of 16,384 ranks and 1,000 steps are 16 million rows, and a first look asks none of
// them, but who was slowest and how long a step took. So these are summed up while they come.
//
//   StepSums sums(ranks);
//   sums.add(batch);                 // a step after the other
//   print(sums.summary().steps.back().median);
#pragma once

#include <cstdint>
#include <vector>

#include "tessera/trace.h"

namespace tessera::storage {

/// One step over the ranks of which something is known, or over all if of none. ns.
struct StepSummaryRow {
  std::int32_t step = 0;
  Time begin = 0, end = 0;  // the first rank's, the last one's; of all ranks
  Time shortest = 0, median = 0, longest = 0;
  Rank slowest = 0;                         // whose step is longest, the first of equals
  Bytes peak_allocated{}, peak_reserved{};  // the highest
};

/// One rank: sums over those of its steps of which something is known. ns.
struct RankSummaryRow {
  Rank rank = 0;
  std::int32_t steps = 0;  // as many
  Time time = 0, compute = 0, communication = 0, exposed = 0, blocking = 0, wait = 0;
  Bytes peak_allocated{}, peak_reserved{};  // the highest, of all steps
};

struct StepSummary {
  std::vector<StepSummaryRow> steps;
  std::vector<RankSummaryRow> ranks;
};

class StepSums {
 public:
  /// Nothing yet, of so many ranks. REQUIRES: ranks >= 0.
  explicit StepSums(std::int32_t ranks);

  /// REQUIRES: columns of that many ranks. Sums are modulo 2^64.
  void add(const RankStepBatch& step);
  const StepSummary& summary() const { return summary_; }

 private:
  StepSummary summary_;
  std::vector<Time> times_;  // of one step
};

}  // namespace tessera::storage
