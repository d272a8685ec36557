// SPDX-License-Identifier: Apache-2.0
// Configurations inside of a config.json: `attn_config` of MPT and DBRX.
#pragma once

#include <string_view>
#include <vector>

#include "engine/text/json_reader.h"

namespace tessera {

/// The object at `key`, empty if there is none; it may have no other keys than `known` and those of
/// any configuration. What is wrong with the object, or what was read of it so far, `config` learns
/// by JsonReader::adopt.
JsonReader nested_keys(JsonReader& config, const char* key, std::vector<std::string_view> known);

}  // namespace tessera
