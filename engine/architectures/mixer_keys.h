// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/model/blueprint.h"
#include "engine/text/json_reader.h"

namespace tessera {

using TensorKind = MixerTensor::Kind;
/// The most that one size of a state may be.
inline constexpr std::int64_t widest_state = std::int64_t{1} << 30;

inline double as_double(std::int64_t size) { return static_cast<double>(size); }

/// Blocks by the list at `key`, a word each: one of `mixers` or one of `attentions`, both separated
/// by spaces. Without the key nothing changes.
void read_mixer_blocks(JsonReader& config, Blueprint& b, const char* key, const char* mixers,
                       const char* attentions);

}  // namespace tessera
