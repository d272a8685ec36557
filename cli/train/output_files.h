// SPDX-License-Identifier: Apache-2.0
// Files that a run writes must not be those that it reads, nor each other.
#pragma once

#include "cli/train/train_options.h"

namespace tessera::cli {

/// Fails: invalid_argument, naming both options.
Status check_output_files(const TrainArguments& arguments);

}  // namespace tessera::cli
