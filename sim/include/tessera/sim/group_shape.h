// SPDX-License-Identifier: Apache-2.0
// How process groups lie on the nodes of a cluster.
//
// Ranks fill nodes in order.
#pragma once

#include <span>
#include <vector>

#include "tessera/rank_set.h"
#include "tessera/sim/cost_model.h"

namespace tessera::sim {

/// What a collective of these members looks like to the network; kind and bytes are left to set.
CollectiveShape shape_of(std::span<const Rank> members, Index ranks_per_node);

/// The same of every group; one entry if all groups look alike.
std::vector<CollectiveShape> shapes_of(const RankGroups& groups, Index ranks_per_node);

}  // namespace tessera::sim
