// SPDX-License-Identifier: Apache-2.0
// The two reductions of a softmax, in a fixed order.
#pragma once

#include "engine/kernels/scalar_math.h"
#include "engine/kernels/wide.h"

namespace tessera::kernels {

TESSERA_INLINE inline float larger(float a, float b) { return a > b ? a : b; }

/// REQUIRES: n > 0.
TESSERA_INLINE inline float largest(const float* x, std::int64_t n) {
  float most[lanes];
  for (float& m : most) m = x[0];
  std::int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    for (int k = 0; k < lanes; ++k) most[k] = larger(most[k], x[i + k]);
  }
  for (int k = 0; i + k < n; ++k) most[k] = larger(most[k], x[i + k]);
  float all = most[0];
  for (float m : most) all = larger(all, m);
  return all;
}

/// Sum of exp(scale * x[i] - shift).
TESSERA_INLINE inline float sum_of_exponentials(const float* x, std::int64_t n, float scale,
                                                float shift) {
  float sum[lanes] = {};
  std::int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    for (int k = 0; k < lanes; ++k) sum[k] += exponential(x[i + k] * scale - shift);
  }
  for (int k = 0; i + k < n; ++k) sum[k] += exponential(x[i + k] * scale - shift);
  float all = 0;
  for (float s : sum) all += s;
  return all;
}

}  // namespace tessera::kernels
