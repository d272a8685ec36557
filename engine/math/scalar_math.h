// SPDX-License-Identifier: Apache-2.0
// exp and log of floats by polynomials: the same bits from every compiler, and loops of them become
// vector code. Within 2 units in the last place.
//
// The polynomials are those of S. Moshier's Cephes library (netlib.org/cephes, single/expf.c,
// single/logf.c and single/tanhf.c).
#pragma once

#include <bit>

#include "tessera/math_arrays.h"

namespace tessera::kernels {

/// Clamped to [-87.3, 88.3], where the result is a normal number.
TESSERA_INLINE inline float exponential(float x) {
  x = x < -87.3F ? -87.3F : x;
  x = x > 88.3F ? 88.3F : x;
  const float shifted = x * 1.44269504F + 12582912.0F;  // 1.5 * 2^23: rounds to an integer
  const float n = shifted - 12582912.0F;
  const float r = (x - n * 0.693359375F) + n * 2.12194440e-4F;
  float p = 1.9875691500e-4F;
  p = p * r + 1.3981999507e-3F;
  p = p * r + 8.3334519073e-3F;
  p = p * r + 4.1665795894e-2F;
  p = p * r + 1.6666665459e-1F;
  p = p * r + 5.0000001201e-1F;
  p = (p * r) * r + r + 1.0F;
  const std::uint32_t exponent = (std::bit_cast<std::uint32_t>(shifted) - 0x4B400000U) << 23;
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(p) + exponent);
}

/// 1 / (1 + exp(-x)).
TESSERA_INLINE inline float sigmoid(float x) { return 1.0F / (1.0F + exponential(-x)); }

TESSERA_INLINE inline float hyperbolic_tangent(float x) {
  const float z = x * x;
  float p = -5.70498872745e-3F;
  p = p * z + 2.06390887954e-2F;
  p = p * z - 5.37397155531e-2F;
  p = p * z + 1.33314422036e-1F;
  p = p * z - 3.33332819422e-1F;
  const float near = p * z * x + x;
  const float far = 1.0F - 2.0F / (exponential(2.0F * x) + 1.0F);
  return z < 0.390625F ? near : far;
}

/// REQUIRES: x is positive and normal.
TESSERA_INLINE inline float logarithm(float x) {
  auto bits = std::bit_cast<std::uint32_t>(x);
  float e = static_cast<float>(static_cast<std::int32_t>(bits >> 23) - 126);
  float m = std::bit_cast<float>((bits & 0x007FFFFFU) | 0x3F000000U);  // [0.5, 1)
  if (m < 0.707106781F) {
    e -= 1;
    m = m + m;
  }
  m -= 1;
  const float z = m * m;
  float p = 7.0376836292e-2F;
  p = p * m - 1.1514610310e-1F;
  p = p * m + 1.1676998740e-1F;
  p = p * m - 1.2420140846e-1F;
  p = p * m + 1.4249322787e-1F;
  p = p * m - 1.6668057665e-1F;
  p = p * m + 2.0000714765e-1F;
  p = p * m - 2.4999993993e-1F;
  p = p * m + 3.3333331174e-1F;
  p = p * m * z;
  p += -2.12194440e-4F * e;
  p += -0.5F * z;
  return m + p + 0.693359375F * e;
}

}  // namespace tessera::kernels
