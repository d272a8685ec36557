// SPDX-License-Identifier: Apache-2.0
// Where a product's operands lie when they have become 8 bits for cuBLASLt, and how: "128-element
// 1D and 128x128 2D Block Scaling For FP8 Data Types" of its manual.
#pragma once

#include "tessera/math_shapes.h"

namespace tessera::kernels {

/// One operand: a row of codes for each row of A, or column of B, along k, which is filled up with
/// zeros.
struct Fp8Operand {
  std::int64_t rows = 1, k = 1;
  bool blocks = false;  // 128 rows share scales

  constexpr std::int64_t groups() const { return over(k, MatmulShape::scaled_together); }
  constexpr std::int64_t row_codes() const { return groups() * MatmulShape::scaled_together; }
  constexpr std::int64_t codes() const { return rows * row_codes(); }
  /// The place of the scale of `group` numbers of `row`: neighbours are those of one group, or with
  /// blocks of one block, filled up to a multiple of 4.
  constexpr std::int64_t scale_at(std::int64_t row, std::int64_t group) const {
    return blocks ? row / MatmulShape::scaled_together * block_scales() + group
                  : group * rows + row;
  }
  constexpr std::int64_t scales() const {
    return blocks ? over(rows, MatmulShape::scaled_together) * block_scales() : groups() * rows;
  }

 private:
  static constexpr std::int64_t over(std::int64_t count, std::int64_t unit) {
    return (count + unit - 1) / unit;
  }
  constexpr std::int64_t block_scales() const { return over(groups(), 4) * 4; }
};

/// Both, one behind the other.
struct Fp8Operands {
  Fp8Operand a, b;

  explicit constexpr Fp8Operands(const MatmulShape& s)
      : a{s.m, s.k, false}, b{s.n, s.k, s.fp8 == Fp8::weight} {}

  constexpr std::int64_t codes_of_a() const { return 0; }
  constexpr std::int64_t scales_of_a() const { return aligned(a.codes()); }
  constexpr std::int64_t codes_of_b() const { return scales_of_a() + aligned(4 * a.scales()); }
  constexpr std::int64_t scales_of_b() const { return codes_of_b() + aligned(b.codes()); }
  constexpr Bytes bytes() const { return Bytes{scales_of_b() + aligned(4 * b.scales())}; }

 private:
  static constexpr std::int64_t aligned(std::int64_t bytes) { return (bytes + 255) / 256 * 256; }
};

}  // namespace tessera::kernels
