// SPDX-License-Identifier: Apache-2.0
// The way back from a vocabulary's spelling of tokens to text.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tessera/status.h"

namespace tessera::tokens {

using Texts = std::vector<std::string>;
using TokenDecoder = std::function<Texts(Texts)>;

/// Fails: not_supported, naming a type that is unknown; invalid_argument.
Result<TokenDecoder> read_decoder(const nlohmann::json& json);

}  // namespace tessera::tokens
