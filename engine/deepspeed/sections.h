// SPDX-License-Identifier: Apache-2.0
// The parts of a DeepSpeed configuration that need more than a line.
#pragma once

#include "engine/deepspeed/config_object.h"
#include "tessera/deepspeed.h"

namespace tessera {

/// `zero_optimization`; leaves `scheme` with everything but the dtypes.
void read_zero(ConfigObject& root, DeepSpeedConfig& config);
void read_aio(ConfigObject& root, DeepSpeedAio& aio);
void read_optimizer(ConfigObject& root, AdamOptions& adam);
/// `train_batch_size` = micro-batch * accumulation * ranks: what is missing follows from the rest.
void read_batch_sizes(ConfigObject& root, Rank ranks, DeepSpeedConfig& config);

}  // namespace tessera
