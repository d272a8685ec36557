// SPDX-License-Identifier: Apache-2.0
// The run in a dozen numbers, from the rank x step summary alone.
#pragma once

#include "inspector/model/trace_model.h"

namespace tessera::inspector {

struct RunSummary {
  Time step = 0;            // median over ranks and steps after the first
  double tokens_per_s = 0;  // over all ranks; 0 if unknown
  double mfu = 0;           // of the recorded peak; 0 if unknown
  double exposed = 0;       // share of the step, median over ranks
  double overlapped = 0;    // share of communication that compute hides
  Bytes peak{};             // highest reserved of any rank
};

RunSummary summarise(const TraceModel& model);

}  // namespace tessera::inspector
