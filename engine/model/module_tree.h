// SPDX-License-Identifier: Apache-2.0
// Models described as a module tree in JSON.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "tessera/model.h"
#include "tessera/status.h"

namespace tessera {

/// A module-tree JSON (docs/model-format.md).
Result<Model> module_tree_model(const nlohmann::json& json, const std::string& source);

}  // namespace tessera
