// SPDX-License-Identifier: Apache-2.0
// LayerNorm and RMSNorm over the rows of a matrix. Backward uses the normalised row and the
// reciprocal of its deviation, so the input need not be kept.
#pragma once

#include "tessera/math_shapes.h"

namespace tessera::kernels {

/// y = normal(x) * weight + bias, where normal(x) = (x - mean) * reciprocal. `bias` may be null.
void norm_forward(const NormShape& shape, const float* x, const float* weight, const float* bias,
                  Array y, Array normal, float* reciprocal, int threads);

/// dx += the gradient of the input. `sums`: 2 * width numbers that become the gradients of weight
/// and bias; `dy` and what forward kept are read.
/// y again, with the bits of norm_forward, from what that has left. REQUIRES: `normal` is float32,
/// so that nothing of it was rounded away. `bias` may be null.
void norm_again(const NormShape& shape, ConstArray normal, const float* weight, const float* bias,
                Array y, int threads);

void norm_backward(const NormShape& shape, const float* dy, const float* weight, ConstArray normal,
                   const float* reciprocal, float* dx, float* sums, int threads);

}  // namespace tessera::kernels
