// SPDX-License-Identifier: Apache-2.0
// GPUs of one kind are not equally fast: silicon, cooling and the node around them differ, and stay
// so for the whole run. A synchronous step is as fast as the slowest.
#pragma once

#include <vector>

#include "tessera/sim/cluster.h"

namespace tessera::sim {

/// How much longer than the average rank each takes, in 2^-20 of its time, drawn from `seed`; empty
/// without a spread.
std::vector<std::int32_t> rank_slowness(const Spread& spread, Rank ranks, Index ranks_per_node,
                                        std::uint64_t seed);

}  // namespace tessera::sim
