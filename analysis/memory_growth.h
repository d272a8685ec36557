// SPDX-License-Identifier: Apache-2.0
// Memory that grows over a run, on all ranks or on some.
//
// The idea: a leak goes on until the end of a run, but may begin at any step. So ends of the run
// are looked at, the longest first, and the first one that grows all through is it. What rises once
// or twice and then stays, as caches do, is no straight line; what depends on the data is none,
// either; and what rises by no more than steps before it differ by says nothing.
#pragma once

#include <vector>

#include "tessera/analysis/findings.h"
#include "tessera/analysis/metrics.h"

namespace tessera::analysis {

/// Adds at most one finding. `table` is of peak memory.
void add_growth(const MetricTable& table, std::vector<Finding>& out);

}  // namespace tessera::analysis
