// SPDX-License-Identifier: Apache-2.0
// x W + b and its gradients, which Linear, Conv1D, attention and MLP share.
#pragma once

#include "training/reference/layer.h"

namespace tessera::real {

/// `b` may be empty. The output is as wide as `w` has columns for.
Tensor affine(const Tensor& x, const std::vector<float>& w, const std::vector<float>& b,
              WeightOrder order);

/// The gradient for `x`; adds to `dw` and, unless it is empty, to `db`.
Tensor affine_backward(const Tensor& x, const std::vector<float>& w, WeightOrder order,
                       const Tensor& dy, std::vector<float>& dw, std::vector<float>& db);

}  // namespace tessera::real
