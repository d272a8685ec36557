// SPDX-License-Identifier: Apache-2.0
// What recorded ranks waited for in the rest of their steps, in which neither compute nor an
// exposed collective runs: the host's CPU, files, copies, or the program that issues operations.
//
// The idea: streams of the host say by what runs on them which they are. As with exposed
// communication, each counts where nothing before it in this list hides it.
#pragma once

#include "tessera/analysis/metrics.h"

namespace tessera::analysis {

/// All steps; ranks and steps that were not recorded are unknown. REQUIRES: one of Metric::cpu,
/// files, host. Fails: as the reader.
Result<MetricTable> idle_table(const Trace& trace, Metric metric);

}  // namespace tessera::analysis
