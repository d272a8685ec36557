// SPDX-License-Identifier: Apache-2.0
// Numbers of 8 bits, e4m3 of "FP8 Formats for Deep Learning" (arXiv 2209.05433): a sign, 4 bits of
// exponent, 3 of mantissa, up to 448. Numbers that share a scale are divided by it before.
//
// Scales are powers of two, so dividing and multiplying by them rounds nothing.
#pragma once

#include "tessera/math_arrays.h"

namespace tessera::kernels {

inline constexpr std::uint32_t infinite_bits = 0x7F800000U;

TESSERA_INLINE inline std::uint32_t magnitude_bits(float x) {
  return std::bit_cast<std::uint32_t>(x) & 0x7FFFFFFFU;
}

/// The smallest power of two by which numbers up to `largest`, given by its magnitude_bits, become
/// at most 448; at least 2^-126. 1 if all are zeros, or one is not finite.
TESSERA_INLINE inline float e4m3_scale(std::uint32_t largest) {
  constexpr std::uint32_t mantissa = 0x7FFFFFU, of_448 = 0x600000U;  // 1.75 x 2^8
  const std::uint32_t exponent = (largest >> 23) + ((largest & mantissa) > of_448 ? 1U : 0U);
  const std::uint32_t scale = exponent < 9 ? 1U : exponent - 8;
  const bool plain = largest == 0 || largest >= infinite_bits;
  return std::bit_cast<float>((plain ? 127U : scale) << 23);
}

/// 1 / scale.
TESSERA_INLINE inline float e4m3_inverse(float scale) {
  return std::bit_cast<float>((254U << 23) - std::bit_cast<std::uint32_t>(scale));
}

/// The code nearest to x, to even; beyond 448 that of 448. What is not finite becomes NaN.
TESSERA_INLINE inline std::uint8_t to_e4m3(float x) {
  const std::uint32_t magnitude = magnitude_bits(x);
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890  // one instruction, the same codes
  std::uint16_t pair = 0;
  asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(0.0F), "f"(x));
  const std::uint32_t finite = pair & 0xFFU;
  return static_cast<std::uint8_t>(magnitude < infinite_bits ? finite : 0x7FU);
#else
  const std::uint32_t sign = (std::bit_cast<std::uint32_t>(x) >> 24) & 0x80U;
  const std::uint32_t normal =
      (magnitude - 0x3C000000U + 0x7FFFFU + ((magnitude >> 20) & 1U)) >> 20;
  // Below 2^-6 codes are multiples of 2^-9: 2^14 has that unit in its last place.
  const std::uint32_t tiny =
      std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) + 0x1p14F) -
      std::bit_cast<std::uint32_t>(0x1p14F);
  const std::uint32_t within = magnitude < 0x3C800000U ? tiny : normal;
  const std::uint32_t finite = magnitude <= 0x43E80000U ? within : 0x7EU;  // 464 rounds to 448
  return static_cast<std::uint8_t>(magnitude < infinite_bits ? sign | finite : 0x7FU);
#endif
}

TESSERA_INLINE inline float from_e4m3(std::uint8_t code) {
  const std::uint32_t sign = static_cast<std::uint32_t>(code & 0x80U) << 24;
  const std::uint32_t magnitude = code & 0x7FU;
  const float tiny = static_cast<float>(static_cast<std::int32_t>(magnitude)) * 0x1p-9F;
  const std::uint32_t normal = (magnitude << 20) + 0x3C000000U;
  const std::uint32_t number = magnitude < 8 ? std::bit_cast<std::uint32_t>(tiny) : normal;
  return std::bit_cast<float>(sign | (magnitude == 0x7FU ? 0x7FC00000U : number));
}

}  // namespace tessera::kernels
