// SPDX-License-Identifier: Apache-2.0
// Units that are gathered too late while others of the same phase come in time.
#pragma once

#include <vector>

#include "tessera/analysis/findings.h"

namespace tessera::analysis {

/// Appends a finding for each such unit. `step_time`: ns of a usual step, which costs are shares
/// of. Fails: with what the reader reports.
Status add_late_gathers(const Trace& trace, Time step_time, std::vector<Finding>& out);

}  // namespace tessera::analysis
