// SPDX-License-Identifier: Apache-2.0
// The options of a run beside its log and its checkpoints, so that it can be made again.
#pragma once

#include <string>

#include "cli/train/train_options.h"

namespace tessera::cli {

/// Writes over files of earlier runs; a file that is none stays, with a warning: it may be the very
/// one that says what to run. `runtime` and `ranks` are those that the run has. Fails: io_error,
/// also where a log itself could not be written.
Status write_run_files(const TrainArguments& arguments, int threads, const std::string& runtime,
                       Rank ranks);

}  // namespace tessera::cli
