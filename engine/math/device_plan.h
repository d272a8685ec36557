// SPDX-License-Identifier: Apache-2.0
// The memory that a language model takes on a GPU. It is computed without a GPU, so that a
// simulator plans with the same figures.
#pragma once

#include "engine/math/fp8_operands.h"
#include "tessera/math.h"

namespace tessera::kernels {

/// The workspace that cuBLASLt may use for one product: as much as it wants on Hopper, so that its
/// choice of an algorithm is not limited by it.
inline constexpr Bytes device_scratch_bytes{32 << 20};

class DevicePlan final : public MathPlan {
 public:
  /// `hopper`: attention by kernels for Hopper where they exist (Processor::hopper).
  explicit DevicePlan(bool hopper = false) : hopper_(hopper) {}

  /// In fp8 sizes must be multiples of 16, as cuBLASLt wants them.
  Status prepare(const MatmulShape& shape) override;
  Status prepare(const AttentionShape& shape) override;
  Bytes scratch() const override { return device_scratch_bytes + fp8_bytes_; }
  /// Backward: one number per row, the product of what attention gave and its gradient; or a
  /// HopperGradient, which begins with them.
  Bytes temporary(const AttentionShape& shape, bool backward) const override;
  std::int64_t logits_rows() const override { return 1024; }
  /// Tensor cores are fed by 16 bytes at a time only if each row begins at a multiple of them. 64:
  /// then a row of halves begins at a cache line.
  std::int64_t logits_stride(std::int64_t vocabulary) const override {
    return (vocabulary + 63) / 64 * 64;
  }

 private:
  bool hopper_;
  Bytes fp8_bytes_{};  // of the largest operands
};

}  // namespace tessera::kernels
