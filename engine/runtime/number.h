// SPDX-License-Identifier: Apache-2.0
// Elements of raw buffers as float: how numeric runtimes and the engine's own bodies read and write
// any floating dtype. bfloat16 rounds to nearest even.
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

/// Element `i` of `bytes` seen as `dtype`. REQUIRES: float32, bfloat16 or uint8.
inline float load_number(std::span<const std::byte> bytes, DType dtype, std::size_t i) {
  if (dtype == DType::float32) {
    float value;
    std::memcpy(&value, bytes.data() + i * sizeof value, sizeof value);
    return value;
  }
  if (dtype == DType::bfloat16) {
    std::uint16_t value;
    std::memcpy(&value, bytes.data() + i * sizeof value, sizeof value);
    return from_bfloat16(value);
  }
  TESSERA_ASSERT(dtype == DType::uint8, "numbers are float32, bfloat16 or uint8");
  return static_cast<float>(bytes[i]);
}

inline void store_number(std::span<std::byte> bytes, DType dtype, std::size_t i, float value) {
  if (dtype == DType::float32) {
    std::memcpy(bytes.data() + i * sizeof value, &value, sizeof value);
  } else if (dtype == DType::bfloat16) {
    const std::uint16_t half = to_bfloat16(value);
    std::memcpy(bytes.data() + i * sizeof half, &half, sizeof half);
  } else {
    TESSERA_ASSERT(dtype == DType::uint8, "numbers are float32, bfloat16 or uint8");
    bytes[i] = static_cast<std::byte>(value);
  }
}

}  // namespace tessera
