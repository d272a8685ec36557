// SPDX-License-Identifier: Apache-2.0
// Sums of columns in two stages, so that all of a GPU adds: blocks of threads have some rows of a
// strip of columns each, and what they found is added in the order of the rows.
//
// Who adds what follows from the sizes alone, so the sums are the same bits on every GPU.
#pragma once

#include "engine/backends/cuda/module/packs.h"
#include "engine/math/device_plan.h"

namespace tessera::device {

struct ColumnParts {
  std::int64_t rows = 1;   // of a part, but for the last one
  std::int64_t count = 1;  // parts

  /// `width`: sums of a part, which lie in scratch memory.
  static ColumnParts of(std::int64_t rows, std::int64_t width) {
    constexpr std::int64_t fewest_rows = 32;  // four for each warp of a block
    constexpr std::int64_t most_parts = 128;
    const std::int64_t fit =
        kernels::device_scratch_bytes.value / (static_cast<std::int64_t>(sizeof(float)) * width);
    std::int64_t parts = (rows + fewest_rows - 1) / fewest_rows;
    parts = parts < most_parts ? parts : most_parts;
    parts = parts < fit ? parts : fit;
    if (parts <= 1) return {rows, 1};
    const std::int64_t each = (rows + parts - 1) / parts;
    return {each, (rows + each - 1) / each};
  }
};

/// Adds the numbers that the warps of a block found for `strip` columns and writes `count` of them.
/// `shared`: a row of `strip` numbers for each warp.
template <int strip>
__device__ void add_warps(const float (&shared)[warps][strip], std::int64_t count, float* to) {
  __syncthreads();
  for (int c = static_cast<int>(threadIdx.x); c < strip && c < count; c += threads) {
    float sum = shared[0][c];
    for (int k = 1; k < warps; ++k) sum += shared[k][c];
    to[c] = sum;
  }
}

/// `count` parts of sums: `pitch` numbers each, of which `width` belong to one array.
struct FoundSums {
  const float* at;
  std::int64_t count, width, pitch;

  FoundSums from(std::int64_t first) const { return {at + first, count, width, pitch}; }
};

/// to[c] += the sum of all parts of it; nothing if there is no array.
int add_parts(const FoundSums& parts, Array to, CudaStream stream);
/// The same for two arrays, whose sums lie side by side: by one launch if they have one type.
int add_parts(const FoundSums& parts, Array first, Array second, CudaStream stream);

}  // namespace tessera::device
