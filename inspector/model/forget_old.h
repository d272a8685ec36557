// SPDX-License-Identifier: Apache-2.0
// What ranks have in memory, as long as somebody looks at it.
#pragma once

#include <algorithm>
#include <cstdint>

namespace tessera::inspector {

/// Forgets what was looked at longest ago, until what is left is few enough or all in use.
template <class OfRanks, class Size>
void forget_old(OfRanks& ranks, std::int64_t frame, std::size_t most, Size size_of) {
  constexpr std::int64_t in_use = 3;  // frames
  std::size_t sum = 0;
  for (const auto& [rank, data] : ranks) sum += size_of(data);
  while (sum > most) {
    const auto oldest = std::min_element(
        ranks.begin(), ranks.end(),
        [](const auto& a, const auto& b) { return a.second.used < b.second.used; });
    if (oldest->second.used + in_use > frame) return;
    sum -= size_of(oldest->second);
    ranks.erase(oldest);
  }
}

}  // namespace tessera::inspector
