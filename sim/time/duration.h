// SPDX-License-Identifier: Apache-2.0
// A formula ends here: its nanoseconds are rounded once.
#pragma once

#include <algorithm>
#include <cmath>

#include "tessera/types.h"

namespace tessera::sim {

inline constexpr double ns_per_s = 1e9;
// 46 days: what a slower machine would need stays countable over many operations.
inline constexpr double duration_ns_max = 4e15;

inline Time to_time(double ns) { return std::llround(std::min(ns, duration_ns_max)); }

}  // namespace tessera::sim
