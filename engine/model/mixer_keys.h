// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/model/blueprint.h"
#include "engine/text/json_reader.h"

namespace tessera {

/// Blocks by the list at `key`, a word each: one of `mixers` or one of `attentions`, both separated
/// by spaces. Without the key nothing changes.
void read_mixer_blocks(JsonReader& config, Blueprint& b, const char* key, const char* mixers,
                       const char* attentions);

}  // namespace tessera
