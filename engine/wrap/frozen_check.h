// SPDX-License-Identifier: Apache-2.0
// Units that hold both trained and frozen parameters.
#pragma once

#include "tessera/wrap.h"

namespace tessera {

/// A warning for every unit of `plan` that mixes both, added to the plan.
/// Fails: invalid_argument, if `uniform_requires_grad`, for the first of them.
Status check_frozen(const Model& model, bool uniform_requires_grad, WrapPlan& plan);

}  // namespace tessera
