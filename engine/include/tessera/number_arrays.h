// SPDX-License-Identifier: Apache-2.0
// Copies and reductions of whole arrays of numbers, for backends whose memory the host can reach.
//
// The idea: one definition of what a copy and a reduction compute, so that all such backends agree
// to the bit. Numbers go through small arrays of floats, so that loops over them become vector code
// whatever the dtypes. A reduction adds in rank order, in float32, and rounds once at its end.
//
//   RankOrderReduction sum(Reduction::average, 1.0F, numel);
//   for (auto input : inputs_by_index) sum.add(input, DType::bfloat16);
//   sum.finish(output, DType::bfloat16);
#pragma once

#include <algorithm>
#include <array>
#include <span>
#include <vector>

#include "tessera/op.h"

namespace tessera {

inline constexpr std::size_t number_chunk = 512;  // 2 KiB: several fit into the first cache
using NumberChunk = std::array<float, number_chunk>;

/// f(first, count) for every chunk of `size` numbers.
template <class F>
void for_chunks(std::size_t size, F&& f) {
  for (std::size_t first = 0; first < size; first += number_chunk) {
    f(first, std::min(number_chunk, size - first));
  }
}

/// to[i] = element `i` of `from`, as many as fit into `to`; and the other way round. The dtype is
/// switched on once and not for every element.
void load_numbers(ConstElements from, std::span<float> to);
void store_numbers(std::span<const float> from, Elements to);

/// to[i] = from[i], cast; elements that `from` does not have become zero.
void copy_numbers(std::span<const std::byte> from, DType from_dtype, std::span<std::byte> to,
                  DType to_dtype);

class RankOrderReduction {
 public:
  RankOrderReduction(Reduction reduction, float factor, std::size_t numel)
      : reduction_(reduction), factor_(factor), values_(numel) {}

  /// Adds the elements of the next rank in order. REQUIRES: `input` has `numel` elements.
  void add(std::span<const std::byte> input, DType dtype);
  /// Writes the result from element `first` on, as many elements as fit into `output`.
  void finish(std::span<std::byte> output, DType dtype, std::size_t first = 0) const;

 private:
  Reduction reduction_;
  float factor_;
  int added_ = 0;
  std::vector<float> values_;
};

}  // namespace tessera
