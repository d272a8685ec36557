// SPDX-License-Identifier: Apache-2.0
// The sections of a DeepSpeed configuration that take more than a line to read.
#pragma once

#include "engine/deepspeed/config_object.h"
#include "tessera/deepspeed.h"

namespace tessera {

/// Reads `zero_optimization` into `config.scheme`, except for the dtypes.
void read_zero(ConfigObject& root, DeepSpeedConfig& config);
void read_aio(ConfigObject& root, DeepSpeedAio& aio);
void read_optimizer(ConfigObject& root, AdamOptions& adam);
/// Reads batch sizes. `train_batch_size` = micro-batch * accumulation * ranks, so a missing one
/// follows from the others.
void read_batch_sizes(ConfigObject& root, Rank ranks, DeepSpeedConfig& config);

}  // namespace tessera
