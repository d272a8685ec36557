// SPDX-License-Identifier: Apache-2.0
// Whether the numbers of a trace are such as a run can have, so that sums of them are safe and
// nothing impossible is shown.
#pragma once

#include "tessera/analysis/trace.h"

namespace tessera::analysis {

/// All fail: corrupt, with what is wrong as the middle of a sentence. Of the small tables:
Status check_values(const Trace& trace);
Status check_ops(const std::vector<storage::OpRow>& ops);
/// Of `rank_step`, all of it or some, in a run of so many steps.
Status check_steps(const storage::RankSteps& rows, std::int32_t steps);
Status check_summary(const storage::StepSummary& summary, std::int32_t steps);

}  // namespace tessera::analysis
