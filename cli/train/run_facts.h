// SPDX-License-Identifier: Apache-2.0
// The facts about a training run that must be alike on all ranks.
#pragma once

#include "cli/train/agreement.h"
#include "cli/train/train_options.h"

namespace tessera::cli {

/// All options of the command that change what is computed, given or not, and the content of the
/// files that they name; the program's version.
Facts facts_of(const TrainArguments& arguments, const TrainRun& run, const TrainData& data);

}  // namespace tessera::cli
