// SPDX-License-Identifier: Apache-2.0
// What NVLS within a node and trees of it between nodes have in common.
#pragma once

#include "sim/collectives/algorithm.h"

namespace tessera::sim {

/// GB/s of a head; 0: too few heads.
double nvls_speed(const Task& task, bool tree);

/// From bus bandwidth to that of the collective's bytes.
double nvls_bus_ratio(const Task& task);

}  // namespace tessera::sim
