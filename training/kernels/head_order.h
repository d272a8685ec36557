// SPDX-License-Identifier: Apache-2.0
// Queries, keys and values of a matrix that gives them head by head, as GPT-NeoX's does.
#pragma once

#include "tessera/math_shapes.h"

namespace tessera::kernels {

struct HeadOrder {
  std::int64_t tokens = 1, heads = 1, head_dim = 1;
};

/// `joined` has q, k and v of the first head, then those of the second, ...; of the others each has
/// its heads side by side.
void split_heads(const HeadOrder& shape, ConstArray joined, const HeadArrays<Array>& to,
                 int threads);
void join_heads(const HeadOrder& shape, const HeadArrays<Array>& from, Array joined, int threads);

}  // namespace tessera::kernels
