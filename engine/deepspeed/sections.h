// SPDX-License-Identifier: Apache-2.0
// The sections of a DeepSpeed configuration that take more than a line to read.
#pragma once

#include "engine/deepspeed/config_object.h"
#include "engine/schemes/option_lists.h"
#include "tessera/deepspeed.h"

namespace tessera {

/// Every option of the list whose keys lie below `section`, which `json` is: "aio.", or "".
template <class Struct>
void read_options(ConfigObject& json, std::string_view section, Struct& options) {
  const auto& list = option_list(options);
  for (std::size_t place = 0; place < list.options().size(); ++place) {
    const auto value = json.option(list.options()[place], section);
    if (!value) continue;
    const Status set = list.set(options, place, *value);
    TESSERA_ASSERT(set.ok(), "what DeepSpeed's keys can say is checked when they are read");
  }
}

/// `zero_optimization`; leaves `scheme` with everything but the dtypes and what is offloaded.
void read_zero(ConfigObject& root, DeepSpeedConfig& config, Zero3Options& offloading);
/// `aio`, into `options.aio`.
void read_aio(ConfigObject& root, Zero3Options& options);
/// `optimizer`: its numbers, and the states that its type keeps.
void read_optimizer(ConfigObject& root, DeepSpeedConfig& config);
/// Reads batch sizes. `train_batch_size` = micro-batch * accumulation * ranks, so a missing one
/// follows from the others.
void read_batch_sizes(ConfigObject& root, Rank ranks, DeepSpeedConfig& config);

}  // namespace tessera
