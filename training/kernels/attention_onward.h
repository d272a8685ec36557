// SPDX-License-Identifier: Apache-2.0
// Attention of a few queries at the end of a sequence whose keys and values are in memory.
//
// The idea: it reads every key and value once, which is all that it costs; so it needs no products
// of matrices and no shapes that are prepared.
#pragma once

#include "tessera/math_shapes.h"

namespace tessera::kernels {

/// Queries `first`, ..., `first` + shape.length - 1 of one sequence, each of which sees the keys up
/// to its own: `in.q` begins with the first of them, `in.k` and `in.v` with the sequence. `scores`:
/// first + shape.length numbers per thread.
/// REQUIRES: shape.batch is 1.
void attention_onward(const AttentionShape& shape, std::int64_t first,
                      const HeadArrays<ConstArray>& in, Array out, float* scores, int threads);

}  // namespace tessera::kernels
