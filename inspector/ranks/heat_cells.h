// SPDX-License-Identifier: Apache-2.0
// Ranks x steps on pixels.
#pragma once

#include <vector>

#include "tessera/analysis/metrics.h"

namespace tessera::inspector {

/// For each of `rows` x `columns` pixels (ranks down, steps across) the place on the scale, 0 to 1,
/// of the value among those that fall on it which is furthest from the median, never the mean: one
/// odd rank stays visible among 16,384. -1 where none is known. REQUIRES: the table has a rank and
/// a step.
std::vector<double> heat_cells(const analysis::MetricFigures& figures, int rows, int columns);

}  // namespace tessera::inspector
