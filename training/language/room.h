// SPDX-License-Identifier: Apache-2.0
// Lays arrays out in a piece of memory; the same code, without memory, says how much there must be.
#pragma once

#include "tessera/math_arrays.h"

namespace tessera::language {

class Room {
 public:
  explicit Room(std::byte* base = nullptr) : base_(base) {}

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
  static constexpr std::int64_t alignment = 64;  // of what processors load at once

  std::byte* base_;
  std::int64_t used_ = 0;
};

}  // namespace tessera::language
