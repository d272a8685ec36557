// SPDX-License-Identifier: Apache-2.0
// The clock and the statistics of benchmarks.
#pragma once

#include <algorithm>
#include <chrono>
#include <vector>

#include "tessera/types.h"

namespace tessera::bench {

inline Time now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

/// REQUIRES: there are some.
inline double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

}  // namespace tessera::bench
