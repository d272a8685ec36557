// SPDX-License-Identifier: Apache-2.0
#include "tessera/storage/step_summary.h"

#include <algorithm>
#include <numeric>

#include "storage/encoding.h"
#include "tessera/assert.h"

namespace tessera::storage {
namespace {

/// As `analysis::median`: the mean of the two in the middle where there are two. Reorders.
Time middle_of(std::vector<Time>& times) {
  const auto middle = times.begin() + std::ssize(times) / 2;
  std::nth_element(times.begin(), middle, times.end());
  if (times.size() % 2 == 1) return *middle;
  const Time below = *std::max_element(times.begin(), middle);
  return std::midpoint(below, *middle);
}

void add_rank(const RankStepBatch& b, std::size_t rank, RankSummaryRow& sums) {
  sums.peak_allocated = std::max(sums.peak_allocated, b.peak_allocated[rank]);
  sums.peak_reserved = std::max(sums.peak_reserved, b.peak_reserved[rank]);
  if (b.begin[rank] >= b.end[rank]) return;
  ++sums.steps;
  const auto add = [](Time& sum, Time more) { sum = wrapping_sum(sum, more); };
  add(sums.time, wrapping_difference(b.end[rank], b.begin[rank]));
  add(sums.compute, b.compute[rank]);
  add(sums.communication, b.communication[rank]);
  add(sums.exposed, b.exposed[rank]);
  add(sums.blocking, b.blocking[rank]);
  add(sums.wait, b.wait[rank]);
}

}  // namespace

StepSums::StepSums(std::int32_t ranks) {
  summary_.ranks.resize(static_cast<std::size_t>(ranks));
  for (Rank rank = 0; rank < ranks; ++rank) {
    summary_.ranks[static_cast<std::size_t>(rank)].rank = rank;
  }
}

void StepSums::add(const RankStepBatch& b) {
  TESSERA_ASSERT(b.begin.size() == summary_.ranks.size(), "a step has all ranks");
  StepSummaryRow& row = summary_.steps.emplace_back();
  row.step = b.step;
  if (summary_.ranks.empty()) return;
  row.begin = *std::min_element(b.begin.begin(), b.begin.end());
  row.end = *std::max_element(b.end.begin(), b.end.end());
  row.peak_allocated = *std::max_element(b.peak_allocated.begin(), b.peak_allocated.end());
  row.peak_reserved = *std::max_element(b.peak_reserved.begin(), b.peak_reserved.end());
  times_.clear();
  for (std::size_t rank = 0; rank < summary_.ranks.size(); ++rank) {
    add_rank(b, rank, summary_.ranks[rank]);
    if (b.begin[rank] >= b.end[rank]) continue;
    const Time time = wrapping_difference(b.end[rank], b.begin[rank]);
    if (times_.empty() || time > row.longest) row.slowest = static_cast<Rank>(rank);
    row.longest = std::max(row.longest, time);
    times_.push_back(time);
  }
  if (times_.empty()) times_.assign(summary_.ranks.size(), 0);
  row.shortest = *std::min_element(times_.begin(), times_.end());
  row.median = middle_of(times_);
}

}  // namespace tessera::storage
