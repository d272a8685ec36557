// SPDX-License-Identifier: Apache-2.0
// The arrays that kernels read and write: an address and a dtype (float32, bfloat16 or float16).
// Kernels of GPUs load and store their elements by the same functions.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include "tessera/assert.h"
#include "tessera/types.h"

namespace tessera::kernels {

struct BFloat16 {
  std::uint16_t bits;
};
struct Float16 {
  std::uint16_t bits;
};

#ifdef __CUDACC__  // kernels of GPUs compute with the same functions
#define TESSERA_INLINE __host__ __device__ __attribute__((always_inline))
#else
#define TESSERA_INLINE __attribute__((always_inline))
#endif

TESSERA_INLINE inline float load(float value) { return value; }
TESSERA_INLINE inline float load(BFloat16 value) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(value.bits) << 16);
}
TESSERA_INLINE inline void store(float& to, float value) { to = value; }
#ifdef __CUDA_ARCH__  // one instruction each, with the bits of those below, but for NaN's payload
TESSERA_INLINE inline void store(BFloat16& to, float value) {
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(to.bits) : "f"(value));
}
TESSERA_INLINE inline float load(Float16 value) {
  float out = 0;
  asm("cvt.f32.f16 %0, %1;" : "=f"(out) : "h"(value.bits));
  return out;
}
TESSERA_INLINE inline void store(Float16& to, float value) {
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(to.bits) : "f"(value));
}
#else
/// Rounds to nearest even; NaN stays NaN.
TESSERA_INLINE inline void store(BFloat16& to, float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t rounded = (bits + 0x7FFFU + ((bits >> 16) & 1U)) >> 16;
  const std::uint32_t nan = (bits >> 16) | 0x40U;
  to.bits = static_cast<std::uint16_t>((bits & 0x7FFFFFFFU) > 0x7F800000U ? nan : rounded);
}

/// As engine/numbers/number.h, but without branches, so that loops become vector code.
TESSERA_INLINE inline float load(Float16 value) {
  const std::uint32_t sign = static_cast<std::uint32_t>(value.bits & 0x8000U) << 16;
  const std::uint32_t magnitude = value.bits & 0x7FFFU;
  const float tiny = static_cast<float>(static_cast<std::int32_t>(magnitude)) * 0x1p-24F;
  const std::uint32_t bias = magnitude < 0x7C00U ? 0x38000000U : 0x70000000U;
  const std::uint32_t normal = (magnitude << 13) + bias;
  const std::uint32_t bits = magnitude < 0x400U ? std::bit_cast<std::uint32_t>(tiny) : normal;
  return std::bit_cast<float>(sign | bits);
}
/// Rounds to nearest even, beyond the largest number to infinity; NaN stays NaN.
TESSERA_INLINE inline void store(Float16& to, float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t magnitude = bits & 0x7FFFFFFFU;
  const std::uint32_t normal = (magnitude - 0x38000000U + 0xFFFU + ((magnitude >> 13) & 1U)) >> 13;
  const std::uint32_t tiny = std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) + 0.5F) -
                             std::bit_cast<std::uint32_t>(0.5F);
  const std::uint32_t finite = magnitude < 0x38800000U ? tiny : normal;  // 2^-14
  const std::uint32_t infinite = magnitude > 0x7F800000U ? 0x7E00U : 0x7C00U;
  const std::uint32_t half = magnitude < 0x47800000U ? finite : infinite;  // 2^16
  to.bits = static_cast<std::uint16_t>(((bits >> 16) & 0x8000U) | half);
}
#endif

struct Array {
  void* data = nullptr;
  DType dtype = DType::float32;

  /// The array from element `first` on.
  Array from(std::int64_t first) const {
    return {static_cast<std::byte*>(data) + first * size_of(dtype).value, dtype};
  }
  template <class T>
  T* as() const {
    return static_cast<T*>(data);
  }
};

struct ConstArray {
  const void* data = nullptr;
  DType dtype = DType::float32;

  ConstArray() = default;
  ConstArray(const void* d, DType t) : data(d), dtype(t) {}
  ConstArray(const Array& a)
      : data(a.data), dtype(a.dtype) {}  // NOLINT(google-explicit-constructor)

  ConstArray from(std::int64_t first) const {
    return {static_cast<const std::byte*>(data) + first * size_of(dtype).value, dtype};
  }
  template <class T>
  const T* as() const {
    return static_cast<const T*>(data);
  }
};

/// Whether kernels compute with this dtype.
constexpr bool is_computed(DType dtype) {
  return dtype == DType::float32 || dtype == DType::bfloat16 || dtype == DType::float16;
}

/// Calls `loop` with a null pointer to the element type. REQUIRES: is_computed.
template <class Loop>
void with_type(DType dtype, const Loop& loop) {
  TESSERA_ASSERT(is_computed(dtype), "kernels compute with float32, bfloat16 and float16");
  if (dtype == DType::bfloat16) return loop(static_cast<BFloat16*>(nullptr));
  if (dtype == DType::float16) return loop(static_cast<Float16*>(nullptr));
  loop(static_cast<float*>(nullptr));
}

}  // namespace tessera::kernels
