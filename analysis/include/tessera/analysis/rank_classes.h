// SPDX-License-Identifier: Apache-2.0
// Ranks that behave alike, as classes: most of a run's ranks are one, and each other class says in
// which metrics it stands out.
//
//   for (const RankClass& c : rank_classes(16384, [&](Metric m) { return outliers(tables[m]); }))
//     print(c.count, c.ranges.front().first, c.side);
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "tessera/analysis/metrics.h"

namespace tessera::analysis {

struct RankClass {
  std::int64_t count = 0;                     // of ranks
  std::vector<std::pair<Rank, Rank>> ranges;  // [first, last], ascending
  std::array<std::int8_t, step_metric_count>
      side{};  // by metric: 1 above the median, -1 below, 0 usual
};

/// By what `outliers_of` says of each metric. The largest class first, equal ones by their first
/// rank. A rank that is above in some steps and below in others counts by the first entry.
std::vector<RankClass> rank_classes(
    std::int32_t ranks, const std::function<const std::vector<Outlier>&(Metric)>& outliers_of);

/// "computes longer, waits less"; "" for ranks that stand out in nothing.
std::string words_of(const RankClass& ranks);

}  // namespace tessera::analysis
