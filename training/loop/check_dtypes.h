// SPDX-License-Identifier: Apache-2.0
// Which types a training run can have together.
#pragma once

#include "tessera/trainer.h"

namespace tessera {

/// Fails: not_supported, invalid_argument (TrainerOptions, Trainer::create).
Status check_dtypes(const TrainerOptions& options, Processor processor);

}  // namespace tessera
