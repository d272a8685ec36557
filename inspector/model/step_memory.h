// SPDX-License-Identifier: Apache-2.0
// Memory of a rank of a long run without reading all of its samples.
//
// The idea: the trace says of each step what was held at its peak. Where many steps are in view
// that is what a picture shows; where few are, what was held before is put in front of their
// samples.
#pragma once

#include <vector>

#include "inspector/model/memory_pyramid.h"
#include "tessera/analysis/trace.h"

namespace tessera::inspector {

/// A series in which every step holds from its begin what it held at its peak; of no buffer.
storage::MemorySeries series_of_peaks(const analysis::Trace& trace, Rank rank);

/// Puts what is held before `series`, which begins at `from`, in front of it.
void hold_before(const std::vector<storage::HeldBuffer>& held, Time from,
                 storage::MemorySeries& series);

}  // namespace tessera::inspector
