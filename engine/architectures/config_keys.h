// SPDX-License-Identifier: Apache-2.0
// The keys of config.json in one table: which of them real training acts upon, which values it
// refuses, and what has no influence on it.
//
// The idea: transformers ignores keys that a class does not know, and a reader that ignores one
// that the class does know computes another model without a word. So keys that are in no row are
// named in a warning. Builders read what they need by the same names; docs/model-format.md shows
// the table, and a test compares the two.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "engine/text/json_reader.h"
#include "tessera/model.h"

namespace tessera {

enum class KeyRule {
  acts,     // any value that the builder accepts
  values,   // one of those listed acts, real training refuses others
  dropout,  // acts while a model is trained on CPUs
  none,     // does not change what is computed
};

struct ConfigKey {
  std::string_view name;
  std::string_view models;  // values of model_type, separated by spaces; "": all
  KeyRule rule;
  std::string_view values;  // separated by spaces, as JSON writes them, without quotes
  std::string_view meaning;
};

std::span<const ConfigKey> config_keys();

/// Whether the table has a row for the key `name` of a model of `model_type`.
bool in_table(std::string_view name, std::string_view model_type);
/// Whether the key `name` of any model changes neither shapes nor numbers.
bool without_influence_on_costs(std::string_view name);

/// The activation called `name` as in transformers, or null.
const Activation* activation_of(std::string_view name);

/// What the keys of a model of `model_type` with so many `layers` say beyond shapes. Never fails:
/// real training refuses later what it does not compute, and simulation does not care. Keys of
/// wrong types are `config`'s errors.
Mathematics read_mathematics(JsonReader& config, std::string_view model_type, std::int64_t layers);

/// The rotation of a Llama-like model, by `rope_theta`, `rope_scaling` or `rope_parameters`; what
/// is not computed becomes a sentence in `refused`.
RotaryEmbedding read_rotary(JsonReader& config, std::string_view model_type, double theta,
                            std::int64_t positions, std::vector<std::string>& refused);
/// That of blocks with a window, where it is another: by `rope_local_base_freq` or
/// `rope_parameters.sliding_attention`.
RotaryEmbedding read_window_rotary(JsonReader& config, double theta, std::int64_t positions,
                                   std::vector<std::string>& refused);

}  // namespace tessera
