// SPDX-License-Identifier: Apache-2.0
// Softmax and cross entropy of rows of logits in one pass over them.
#pragma once

#include "tessera/math_arrays.h"

namespace tessera::kernels {

/// Rows of `width` logits and the ids that should have been predicted. gradient =
/// (softmax - one-hot) * scale, which may take the place of the logits; losses[r] = the row's cross
/// entropy in nats. A row without a target, -1, has a gradient and a loss of 0.
void cross_entropy(const float* logits, const std::int32_t* targets, std::int64_t rows,
                   std::int64_t width, float scale, Array gradient, float* losses, int threads);

}  // namespace tessera::kernels
