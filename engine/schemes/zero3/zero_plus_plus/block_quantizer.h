// SPDX-License-Identifier: Apache-2.0
// Numbers as small integers with one float32 scale per block (ZeRO++, arXiv 2306.10209, section 4).
//
// The idea: rows are quantised one by one, so that a row can be sent alone. A block's scale is its
// largest magnitude over the largest code; codes are symmetric around zero and rounded to nearest.
#pragma once

#include <vector>

#include "tessera/op.h"

namespace tessera {

struct BlockQuantizer {
  int bits = 8;  // 8 or 4
  Numel row{};   // elements; of 4 bits an even number

  /// DeepSpeed's target is 8000 elements a block.
  std::int64_t blocks() const { return (row.value + block_max - 1) / block_max; }
  /// Bytes of a row's codes, and its number of scales.
  Numel codes() const { return Numel{row.value * bits / 8}; }
  Numel scales() const { return Numel{blocks()}; }

  /// Rows of `from`; row r goes to row places[r].
  Compute quantize(const View& from, const View& codes, const View& scales,
                   const std::vector<std::int64_t>& places) const;
  /// Row r of `to`, which has n, is the sum of rows r, r + n, r + 2n, ... in that order.
  Compute dequantize(const View& codes, const View& scales, const View& to) const;

  static constexpr std::int64_t block_max = 8000;

 private:
  BlockFormat format() const;
};

}  // namespace tessera
