// SPDX-License-Identifier: Apache-2.0
// The record of a training run as a whole (TraceRun) in its trace.
#pragma once

#include "cli/train/open_runtime.h"
#include "cli/train/peak_flops.h"
#include "cli/train/train_options.h"
#include "tessera/trace.h"

namespace tessera::cli {

TraceRun trace_run(const TrainArguments& arguments, const TrainRun& run, const Launch& launch,
                   const OpenedRuntime& opened, const PeakFlops& peak);

}  // namespace tessera::cli
