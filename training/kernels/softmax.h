// SPDX-License-Identifier: Apache-2.0
// The two reductions of a softmax, in a fixed order.
#pragma once

#include "engine/math/scalar_math.h"
#include "engine/numbers/wide.h"

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
  for (int half = lanes / 2; half > 0; half /= 2) {
    for (int k = 0; k < half; ++k) most[k] = larger(most[k], most[k + half]);
  }
  return most[0];
}

TESSERA_INLINE inline float sum_of(const float* x, std::int64_t n) {
  float sum[lanes] = {};
  std::int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    for (int k = 0; k < lanes; ++k) sum[k] += x[i + k];
  }
  for (int k = 0; i + k < n; ++k) sum[k] += x[i + k];
  return total_of(sum);
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
  return total_of(sum);
}

}  // namespace tessera::kernels
