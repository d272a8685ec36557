// SPDX-License-Identifier: Apache-2.0
// GPUs of one kind are not equally fast: silicon, cooling and the node around them differ, and stay
// so for the whole run. A synchronous step is as fast as the slowest.
#pragma once

#include <span>
#include <vector>

#include "tessera/rank_set.h"
#include "tessera/sim/cluster.h"
#include "tessera/sim/lockstep_runtime.h"

namespace tessera::sim {

/// How much longer than the average rank each takes, in 2^-20 of its time, drawn from `seed`; empty
/// without a spread.
std::vector<std::int32_t> rank_slowness(const Spread& spread, Rank ranks, Index ranks_per_node,
                                        std::uint64_t seed);

/// How many times as long collectives of each group take; empty without slow links.
std::vector<double> group_slowness(std::span<const SlowLink> slow_links, const RankGroups& groups,
                                   Index ranks_per_node);

}  // namespace tessera::sim
