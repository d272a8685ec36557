// SPDX-License-Identifier: Apache-2.0
// What a DeepSpeed configuration comes to, so that tests can tell whether a key acted.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "tessera/deepspeed.h"

namespace tessera::test {

struct Outcome {
  bool refused = false;
  std::string message;  // of the refusal
  std::string decided;  // everything that a run would take from the file
  std::string said;     // all lists, a key per line

  /// Whether a sentence begins with the key, with a section around it or with a key in it.
  bool says(const std::string& path) const;
};

Outcome outcome_of(const nlohmann::json& config, Rank ranks = 8);
Outcome outcome_of_text(const std::string& text, Rank ranks = 8);

}  // namespace tessera::test
