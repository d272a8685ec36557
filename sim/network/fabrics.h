// SPDX-License-Identifier: Apache-2.0
// Networks by name: what a cluster file may leave out once it says "fabric".
#pragma once

#include <string_view>
#include <vector>

#include "tessera/sim/network.h"

namespace tessera::sim {

/// A link between nodes with everything but its rate; null: no fabric has that name.
const Link* find_fabric(std::string_view name);

std::vector<std::string_view> fabric_names();

/// What is left of a link's rate where `nodes` fill several pods of an oversubscribed network and
/// `crossing` nodes' worth of traffic leaves each pod.
double beyond_pods(const Link& link, Index nodes, double crossing);

}  // namespace tessera::sim
