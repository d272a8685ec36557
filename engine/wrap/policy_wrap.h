// SPDX-License-Identifier: Apache-2.0
// From a policy to the modules that become units, by the engine that the policy is for.
#pragma once

#include <map>

#include "engine/wrap/ignored_states.h"
#include "tessera/wrap.h"

namespace tessera {

/// Modules that become units, besides the root, in pre-order.
using UnitTargets = std::map<ModuleId, UnitOverrides>;

/// Runs `policy` with the engine that it is written for and adds to `warnings`.
/// Fails: invalid_argument (the policy, see check_policy).
Result<UnitTargets> targets_of(const Model& model, const ModuleGraph& graph,
                               const WrapPolicy& policy, const IgnoredStates& ignored,
                               const WrapOptions& options, std::vector<std::string>& warnings);

}  // namespace tessera
