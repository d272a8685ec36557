// SPDX-License-Identifier: Apache-2.0
// The middle of some numbers: the one median of all figures.
//
//   median(std::vector<Time>{3, 1, 2})  // 2
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace tessera::analysis {

/// The mean of the two middle values where there are two: a median that takes the upper one would
/// show the slower of two steps as the usual one. REQUIRES: there is a value.
template <class T>
T median(std::vector<T> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 == 1) return *middle;
  const T below = *std::max_element(values.begin(), middle);
  return below + (*middle - below) / 2;
}

}  // namespace tessera::analysis
