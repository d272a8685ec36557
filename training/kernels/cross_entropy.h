// SPDX-License-Identifier: Apache-2.0
// Softmax and cross entropy of rows of logits in one pass over them.
#pragma once

#include "tessera/math_shapes.h"

namespace tessera::kernels {

/// RowMath::cross_entropy: rows of logits and the ids that should have been predicted.
void cross_entropy(const StoredRows& rows, const float* logits, const std::int32_t* targets,
                   float scale, Array gradient, float* losses, int threads);

}  // namespace tessera::kernels
