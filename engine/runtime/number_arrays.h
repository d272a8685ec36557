// SPDX-License-Identifier: Apache-2.0
// Copies and reductions of whole arrays of numbers, for carriers whose memory the host can reach.
//
// The idea: one definition of what a copy and a reduction compute, so that all such carriers agree
// to the bit. A reduction adds in rank order, in float32, and rounds once at its end.
//
//   RankOrderReduction sum(Reduction::average, 1.0F, numel);
//   for (auto input : inputs_by_index) sum.add(input, DType::bfloat16);
//   sum.finish(output, DType::bfloat16);
#pragma once

#include <span>
#include <vector>

#include "tessera/op.h"

namespace tessera {

/// to[i] = from[i], cast; elements that `from` does not have become zero.
void copy_numbers(std::span<const std::byte> from, DType from_dtype, std::span<std::byte> to,
                  DType to_dtype);

class RankOrderReduction {
 public:
  RankOrderReduction(Reduction reduction, float factor, std::size_t numel)
      : reduction_(reduction), factor_(factor), values_(numel) {}

  /// The next index's elements. REQUIRES: as many as `numel`.
  void add(std::span<const std::byte> input, DType dtype);
  /// Elements [first, first + as many as fit into `output`).
  void finish(std::span<std::byte> output, DType dtype, std::size_t first = 0) const;

 private:
  Reduction reduction_;
  float factor_;
  int added_ = 0;
  std::vector<float> values_;
};

}  // namespace tessera
