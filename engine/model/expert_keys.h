// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/model/blueprint.h"
#include "engine/text/json_reader.h"

namespace tessera {

/// How many experts there are, how many a token meets, and how they are kept, by the keys `count`
/// ("num_experts|num_local_experts") and `used`.
void read_expert_counts(JsonReader& config, Blueprint& b, const char* count, const char* used);

}  // namespace tessera
