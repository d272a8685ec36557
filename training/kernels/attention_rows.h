// SPDX-License-Identifier: Apache-2.0
// The parts of attention between its matrix products, on one block of query rows of one head.
#pragma once

#include "tessera/math_shapes.h"

namespace tessera::kernels {

/// The factor of scores.
float scale_of(const AttentionShape& shape);

/// Rows [first, first + rows) of the sequence against `keys` keys; row r sees keys up to itself, at
/// most `window` of them.
struct BlockRows {
  std::int64_t first, rows, keys;
  float scale;
  std::int64_t window = 0;               // 0: all
  const std::int32_t* begins = nullptr;  // HeadArrays::begins, of the sequence
  const Dropout* dropout = nullptr;      // HeadArrays::dropout
  std::int64_t sample = 0;               // of the batch
  std::int64_t head = 0;                 // rows of all heads before this one

  /// The keys that row r sees are [first_seen(r), first + r + 1).
  std::int64_t first_seen(std::int64_t r) const {
    const std::int64_t t = first + r;
    const std::int64_t near = window > 0 && t >= window ? t + 1 - window : 0;
    return begins != nullptr && begins[t] > near ? begins[t] : near;
  }
};

/// weights = the causal softmax of scale * scores; may be the scores themselves. statistics: per
/// row the largest scaled score and the reciprocal of the sum.
void attention_weights(const BlockRows& block, float* scores, Array weights, float* statistics);
/// Recomputes the weights of attention_weights from the scores and the statistics.
void weights_again(const BlockRows& block, const float* scores, Array weights,
                   const float* statistics);

/// Scores become what leads to cap * tanh(scale * score / cap). `slopes`, if not null: of the new
/// scores in the old ones.
void cap_scores(const BlockRows& block, float cap, float* scores, float* slopes);
/// gradients *= slopes, of the keys that rows see.
void cap_gradient(const BlockRows& block, const float* slopes, Array gradients);

/// Weights that are dropped become 0, others larger.
void drop_weights(const BlockRows& block, Array weights);

struct OutRows {  // of the head's output and its gradient
  ConstArray out, gradient;
  std::int64_t width, stride;
};
/// weights become the gradient of the scores: scale * weights * (gradient - sum(out * dout)).
void scores_gradient(const BlockRows& block, const OutRows& out, const float* weights_gradient,
                     Array weights);

/// With dropout: weights_gradient becomes the gradient of the scores, weights those after dropout.
void dropped_gradient(const BlockRows& block, const OutRows& out, float* weights_gradient,
                      Array weights);

/// to[r, c] = from[r, c], where rows of `to` are `stride` apart.
void spread_rows(const float* from, std::int64_t rows, std::int64_t width, Array to,
                 std::int64_t stride);

}  // namespace tessera::kernels
