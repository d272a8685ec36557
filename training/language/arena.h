// SPDX-License-Identifier: Apache-2.0
// A bump allocator that lays arrays out in a piece of memory. Without memory the same code works
// out how much there must be, so that sizes and layout cannot disagree.
#pragma once

#include "tessera/math_arrays.h"

namespace tessera::language {

class Arena {
 public:
  /// Without `base` the arrays have null addresses and only `used` matters.
  explicit Arena(std::byte* base = nullptr) : base_(base) {}

  /// The next `numel` elements, aligned to 64 bytes.
  kernels::Array take(std::int64_t numel, DType dtype) {
    const kernels::Array out{base_ == nullptr ? nullptr : base_ + used_, dtype};
    const std::int64_t bytes = numel * size_of(dtype).value;
    used_ += (bytes + alignment - 1) / alignment * alignment;
    return out;
  }
  float* floats(std::int64_t numel) { return take(numel, DType::float32).as<float>(); }
  std::byte* bytes(Bytes count) { return take(count.value, DType::uint8).as<std::byte>(); }

  Bytes used() const { return Bytes{used_}; }

 private:
  static constexpr std::int64_t alignment = 64;  // a cache line, and the widest vector register

  std::byte* base_;
  std::int64_t used_ = 0;
};

}  // namespace tessera::language
