// SPDX-License-Identifier: Apache-2.0
// Rotary position embedding in the form that Llama checkpoints need: element i of a head is rotated
// together with element i + head_dim / 2 (arXiv 2104.09864; transformers' rotate_half).
#pragma once

#include <vector>

#include "tessera/math_shapes.h"
#include "tessera/model.h"

namespace tessera::kernels {

/// Cosines and sines of position * frequency: row t has head_dim / 2 of each.
struct RotaryTable {
  std::int64_t half = 0;
  std::vector<float> cosine, sine;

  std::int64_t numel() const { return static_cast<std::int64_t>(cosine.size()); }
};

/// The elements of a head that are rotated.
std::int64_t rotated_dim(const RotaryEmbedding& rotary, std::int64_t head_dim);

/// Made without libm, so it is the same everywhere. REQUIRES: rotated_dim is even.
RotaryTable rotary_table(const RotaryEmbedding& rotary, std::int64_t head_dim,
                         std::int64_t positions);

/// Rotates the heads of rows [b, t] in place; `inverse`: back, which is the gradient.
void rotate(const RotaryRows& table, Array x, std::int64_t rows, std::int64_t heads, bool inverse,
            int threads);

}  // namespace tessera::kernels
