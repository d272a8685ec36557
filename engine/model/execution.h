// SPDX-License-Identifier: Apache-2.0
// The keys of a module-tree JSON that say what runs: "forward", "graphs", "reads", "returns".
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "engine/model/module_paths.h"

namespace tessera {

/// Adds them to `model`, whose tree, aliases and ties are complete. Without "forward" the modules
/// without children run, in order.
/// Fails: invalid_argument, naming `source` and the entry: of the wrong form, no such module or
/// parameter, an entry that contains another, a graph without a name or with a taken one, a read of
/// what the module has anyway, a parameter returned by a module that does not have it.
Status read_execution(const nlohmann::json& json, const std::string& source,
                      const ModulePaths& paths, Model& model);

}  // namespace tessera
