// SPDX-License-Identifier: Apache-2.0
// From the modules that become units to the plan: who manages what, and whether that can work.
#pragma once

#include "engine/wrap/policy_wrap.h"

namespace tessera {

/// Fails and warns as plan_wrapping, policies aside. `warnings`: those there are already.
Result<WrapPlan> complete_plan(const Model& model, const UnitTargets& targets,
                               const IgnoredStates& ignored, const WrapOptions& options,
                               std::vector<std::string> warnings);

/// The plan of units that were named by hand. Fails and warns as WrapContext::plan.
Result<WrapPlan> plan_of_units(const Model& model, const UnitTargets& units,
                               const WrapOptions& options);

/// Fails: invalid_argument, if the earlier plan of `options` has units.
Status check_unwrapped(const Model& model, const WrapOptions& options);

}  // namespace tessera
