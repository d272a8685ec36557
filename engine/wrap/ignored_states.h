// SPDX-License-Identifier: Apache-2.0
// Modules and parameters that sharding leaves alone.
#pragma once

#include <string>
#include <vector>

#include "engine/model/module_graph.h"
#include "tessera/wrap.h"

namespace tessera {

struct IgnoredStates {
  std::vector<bool> modules;     // by ModuleId: named, or below one that is
  std::vector<bool> parameters;  // by ParameterId: named, or of an ignored module
  std::vector<std::string> warnings;
};

/// Looks up the names in `options`. Fails: invalid_argument, see plan_wrapping.
Result<IgnoredStates> ignored_states(const Model& model, const ModuleGraph& graph,
                                     const WrapOptions& options);

}  // namespace tessera
