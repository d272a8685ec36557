// SPDX-License-Identifier: Apache-2.0
#include "training/reference/arithmetic.h"

#include <bit>
#include <cstdint>

#include "engine/math/scalar_math.h"

namespace tessera::real {
namespace {

// ln 2 in two parts: the first has few bits, so that its product with an exponent is exact.
constexpr float ln2_high = 0.693359375F;
constexpr float ln2_low = -2.12194440e-4F;

}  // namespace

float exponential(float x) {
  if (!(x == x)) return x;  // not a number
  if (x < -87) return 0;
  if (x > 88) x = 88;
  const float scaled = x * 1.44269504F;
  const auto n = static_cast<std::int32_t>(scaled + (scaled < 0 ? -0.5F : 0.5F));
  const auto whole = static_cast<float>(n);
  const float r = x - whole * ln2_high - whole * ln2_low;
  float p = 1.9875691500e-4F;
  p = p * r + 1.3981999507e-3F;
  p = p * r + 8.3334519073e-3F;
  p = p * r + 4.1665795894e-2F;
  p = p * r + 1.6666665459e-1F;
  p = p * r + 5.0000001201e-1F;
  const float power_of_two = std::bit_cast<float>(static_cast<std::uint32_t>(n + 127) << 23);
  return (p * (r * r) + r + 1) * power_of_two;
}

float logarithm(float x) { return kernels::logarithm(x); }

float hyperbolic_tangent(float x) {
  if (x > 10) return 1;
  if (x < -10) return -1;
  return 1 - 2 / (exponential(2 * x) + 1);
}

}  // namespace tessera::real
