// SPDX-License-Identifier: Apache-2.0
// The key "module_aliases" of a module-tree JSON: modules registered under several names.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "tessera/model.h"

namespace tessera {

/// Adds to `model`, whose tree is complete, the pairs [module, further path] of `json`.
/// Fails: invalid_argument, naming `source` and the pair: not a pair of strings, no such module, a
/// path that is taken or lies in no module, a module inside itself, too deep a nesting.
Status read_module_aliases(const nlohmann::json& json, const std::string& source, Model& model);

}  // namespace tessera
