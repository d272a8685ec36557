// SPDX-License-Identifier: Apache-2.0
// LayerNorm and RMSNorm over the rows of a matrix. What backward needs is the normalised row and
// the reciprocal of its deviation, so the input need not be kept.
#pragma once

#include "engine/kernels/array.h"

namespace tessera::kernels {

struct NormShape {
  std::int64_t rows = 1, width = 1;
  bool centred = true;  // LayerNorm; false: RMSNorm
  float epsilon = 1e-5F;
  int threads = 1;
};

/// y = normal(x) * weight + bias, where normal(x) = (x - mean) * reciprocal. `bias` may be null.
void norm_forward(const NormShape& shape, const float* x, const float* weight, const float* bias,
                  Array y, Array normal, float* reciprocal);

/// dx += the gradient of the input. `sums`: 2 * width numbers that become the gradients of weight
/// and bias; `dy` and what forward kept are read.
void norm_backward(const NormShape& shape, const float* dy, const float* weight, ConstArray normal,
                   const float* reciprocal, float* dx, float* sums);

}  // namespace tessera::kernels
