// SPDX-License-Identifier: Apache-2.0
// The middle of some numbers.
#pragma once

#include <algorithm>
#include <vector>

namespace tessera::cli {

/// Of two middle values the mean. REQUIRES: there is one.
template <class T>
T median(std::vector<T> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 == 1) return *middle;
  const T below = *std::max_element(values.begin(), middle);
  return below + (*middle - below) / 2;
}

}  // namespace tessera::cli
