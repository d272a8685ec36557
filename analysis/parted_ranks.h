// SPDX-License-Identifier: Apache-2.0
// Ranks that fall into two parts, of which one is slower than the other.
//
// The idea: a median says who is odd among like ranks, but where half of them are slow it lies
// between. Two parts are apart if the gap between them is far wider than either is in itself, in
// nearly every step.
//
//   if (const auto parted = parted_ranks(table)) print(parted->slow, parted->excess);
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tessera/analysis/metrics.h"

namespace tessera::analysis {

struct PartedRanks {
  std::vector<Rank> slow;       // ascending; two or more, as are the others
  double excess = 0;            // of their median over the others'
  std::int64_t difference = 0;  // the same in ns or bytes
  std::int64_t usual = 0;       // the others' median
  std::int32_t steps = 0;       // that were looked at, the steady ones
};

std::optional<PartedRanks> parted_ranks(const MetricTable& table);

/// "ranks 8 to 15", "ranks 2 to 3 and 10 to 11", "rank 5"; "Rank 5" where a sentence begins so.
std::string text_of_ranks(const std::vector<Rank>& ascending, bool begins);

}  // namespace tessera::analysis
