// SPDX-License-Identifier: Apache-2.0
// How a model's own files say that tokens are chosen: generation_config.json beside its
// config.json, or without one config.json itself, as transformers' `generate` follows them.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "cli/train/token_choice.h"
#include "tessera/status.h"

namespace tessera::cli {

struct GenerationSettings {
  std::string file;                        // "": none says how tokens are chosen
  bool samples = true;                     // else the most likely token is taken
  TokenChoice choice;                      // what is unsaid as transformers has it
  std::optional<std::int64_t> new_tokens;  // how many to add
  std::optional<std::int64_t> length;      // the same, with the prompt
  std::set<std::int32_t> ends;             // eos_token_id
  std::vector<std::string> warnings;       // keys that act in transformers and not here
};

/// `config`: the model's file; `vocabulary`: how many tokens it has. Fails: invalid_argument,
/// naming file and key (no JSON, a value of another type or range, a key that is misspelt).
Result<GenerationSettings> read_generation_settings(const std::string& config,
                                                    std::int64_t vocabulary);

}  // namespace tessera::cli
