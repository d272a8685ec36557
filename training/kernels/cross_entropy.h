// SPDX-License-Identifier: Apache-2.0
// Softmax and cross entropy of rows of logits in one pass over them.
#pragma once

#include "tessera/math_shapes.h"

namespace tessera::kernels {

/// RowMath::cross_entropy: rows of logits and the ids that should have been predicted.
void cross_entropy(const StoredRows& rows, const float* logits, const std::int32_t* targets,
                   float scale, Array gradient, float* losses, int threads);

/// Logits become cap * tanh(logits / cap); `slopes`, as many and as far apart: of the new ones in
/// the old ones, or null.
void cap_logits(const StoredRows& rows, float cap, float* logits, float* slopes, int threads);
/// gradient *= slopes.
void cap_logits_back(const StoredRows& rows, const float* slopes, Array gradient, int threads);

}  // namespace tessera::kernels
