// SPDX-License-Identifier: Apache-2.0
// Models of texts and images or sound, of which the language model is built: its own config.json is
// an object in theirs, `text_config`.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "tessera/status.h"

namespace tessera {

struct WrappedText {
  nlohmann::json config;  // of the language model, as a file of its own would have it
  std::string warning;    // what is left out
};

/// The language model of `json`, whose class or model type is `name`; nothing if that is no such
/// model. Fails: invalid_argument, if it has no language model.
Result<std::optional<WrappedText>> wrapped_text(const nlohmann::json& json,
                                                const std::string& source, const std::string& name);

}  // namespace tessera
