// SPDX-License-Identifier: Apache-2.0
// Memory that grows over a run, on all ranks or on some.
//
// The idea: what is kept from step to step raises the least that any stretch of steps needs, while
// steps of different sizes raise the most. So the run is cut into stretches, and a leak is a floor
// that rises from nearly each to the next, by more than steps of one stretch differ.
#pragma once

#include <vector>

#include "tessera/analysis/findings.h"
#include "tessera/analysis/metrics.h"

namespace tessera::analysis {

/// Adds at most one finding. `table` is of peak memory.
void add_growth(const MetricTable& table, std::vector<Finding>& out);

}  // namespace tessera::analysis
