// SPDX-License-Identifier: Apache-2.0
// Files that a run names: what it reads can be read again, what it writes is not what it reads.
#pragma once

#include "cli/train/train_options.h"

namespace tessera::cli {

/// Fails: invalid_argument, naming the file and what is wrong with it, or both options.
Status check_named_files(const TrainArguments& arguments);

}  // namespace tessera::cli
