// SPDX-License-Identifier: Apache-2.0
// Numbers that kernels read and write: an address and whether they are float32 or bfloat16.
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
/// Rounds to nearest even; NaN stays NaN.
TESSERA_INLINE inline void store(BFloat16& to, float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t rounded = (bits + 0x7FFFU + ((bits >> 16) & 1U)) >> 16;
  const std::uint32_t nan = (bits >> 16) | 0x40U;
  to.bits = static_cast<std::uint16_t>((bits & 0x7FFFFFFFU) > 0x7F800000U ? nan : rounded);
}

struct Array {
  void* data = nullptr;
  DType dtype = DType::float32;

  /// From element `first` on.
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

/// Calls `loop` with a null pointer to the element type. REQUIRES: float32 or bfloat16.
template <class Loop>
void with_type(DType dtype, const Loop& loop) {
  TESSERA_ASSERT(dtype == DType::float32 || dtype == DType::bfloat16,
                 "kernels compute with float32 and bfloat16");
  if (dtype == DType::bfloat16) return loop(static_cast<BFloat16*>(nullptr));
  loop(static_cast<float*>(nullptr));
}

}  // namespace tessera::kernels
