// SPDX-License-Identifier: Apache-2.0
// What a tokenizer.json, and the tokenizer_config.json beside it, say that no step follows.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tessera/status.h"

namespace tessera::tokens {

/// A sentence each: settings that are not followed, keys that are not read. `json` is a file that
/// was read without a mistake, `source` its name.
std::vector<std::string> unfollowed_keys(const nlohmann::json& json, const std::string& source);

/// Where tokenizer_config.json in `folder` wants tokens around a text that the tokenizer does not
/// add, or the other way round. Fails: invalid_argument, naming it (no JSON, other than true or
/// false).
Result<std::vector<std::string>> other_tokens_around(const std::string& folder, bool before,
                                                     bool behind);

}  // namespace tessera::tokens
