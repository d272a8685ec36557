// SPDX-License-Identifier: Apache-2.0
// Elements of raw buffers as float: how numeric runtimes and the engine's own bodies read and write
// any dtype that has numbers. Halves round to nearest even.
#pragma once

#include <bit>
#include <cstring>
#include <span>

#include "tessera/assert.h"
#include "tessera/types.h"

namespace tessera {

inline std::uint16_t to_bfloat16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7FFFFFFFU) > 0x7F800000U) return static_cast<std::uint16_t>((bits >> 16) | 0x40U);
  return static_cast<std::uint16_t>((bits + 0x7FFFU + ((bits >> 16) & 1U)) >> 16);
}

inline float from_bfloat16(std::uint16_t value) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(value) << 16);
}

// The first branch keeps NaN a NaN; the last lets a float addition round: 0.5 has the spacing of a
// float16 that is not normal.
inline std::uint16_t to_float16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t magnitude = bits & 0x7FFFFFFFU;
  std::uint32_t half = 0;
  if (magnitude > 0x7F800000U) {
    half = 0x7E00U;
  } else if (magnitude >= 0x47800000U) {  // 2^16: infinite
    half = 0x7C00U;
  } else if (magnitude >= 0x38800000U) {  // 2^-14: the smallest normal one
    half = (magnitude - 0x38000000U + 0xFFFU + ((magnitude >> 13) & 1U)) >> 13;
  } else {
    half = std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) + 0.5F) -
           std::bit_cast<std::uint32_t>(0.5F);
  }
  return static_cast<std::uint16_t>(((bits >> 16) & 0x8000U) | half);
}

inline float from_float16(std::uint16_t value) {
  const std::uint32_t sign = (value & 0x8000U) << 16;
  const std::uint32_t magnitude = value & 0x7FFFU;
  if (magnitude < 0x400U) {  // not normal: a multiple of 2^-24
    const float tiny = static_cast<float>(magnitude) * 0x1p-24F;
    return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(tiny));
  }
  const std::uint32_t bias = magnitude < 0x7C00U ? 0x38000000U : 0x70000000U;  // or infinite, NaN
  return std::bit_cast<float>(sign | ((magnitude << 13) + bias));
}

namespace detail {

template <class T>
T load(std::span<const std::byte> bytes, std::size_t i) {
  T value;
  std::memcpy(&value, bytes.data() + i * sizeof value, sizeof value);
  return value;
}
template <class T>
void store(std::span<std::byte> bytes, std::size_t i, T value) {
  std::memcpy(bytes.data() + i * sizeof value, &value, sizeof value);
}

}  // namespace detail

/// Element `i` of `bytes` seen as `dtype`. int32: exact below 2^24. REQUIRES: not 64 bits wide.
inline float load_number(std::span<const std::byte> bytes, DType dtype, std::size_t i) {
  switch (dtype) {
    case DType::float32: return detail::load<float>(bytes, i);
    case DType::bfloat16: return from_bfloat16(detail::load<std::uint16_t>(bytes, i));
    case DType::float16: return from_float16(detail::load<std::uint16_t>(bytes, i));
    case DType::int32: return static_cast<float>(detail::load<std::int32_t>(bytes, i));
    default: TESSERA_ASSERT(dtype == DType::uint8, "numbers are at most 32 bits wide");
  }
  return static_cast<float>(bytes[i]);
}

inline void store_number(std::span<std::byte> bytes, DType dtype, std::size_t i, float value) {
  switch (dtype) {
    case DType::float32: return detail::store(bytes, i, value);
    case DType::bfloat16: return detail::store(bytes, i, to_bfloat16(value));
    case DType::float16: return detail::store(bytes, i, to_float16(value));
    case DType::int32: return detail::store(bytes, i, static_cast<std::int32_t>(value));
    default: TESSERA_ASSERT(dtype == DType::uint8, "numbers are at most 32 bits wide");
  }
  bytes[i] = static_cast<std::byte>(value);
}

}  // namespace tessera
