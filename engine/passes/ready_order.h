// SPDX-License-Identifier: Apache-2.0
// In which order the gradients of one module become ready.
#pragma once

#include <vector>

#include "tessera/model.h"

namespace tessera {

/// By ModuleId, the parameters of `used` (used_by) in the order of their gradients: what was
/// registered last comes first, as autograd accumulates a bias before the weight of a linear layer;
/// but in the order of registration for norms and convolutions, whose backward is one function that
/// returns the weight's gradient first (torch derivatives.yaml: native_layer_norm,
/// native_batch_norm, native_group_norm, convolution).
std::vector<std::vector<ParameterId>> ready_orders(
    const Model& model, const std::vector<std::vector<ParameterId>>& used);

}  // namespace tessera
