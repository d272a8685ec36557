// SPDX-License-Identifier: Apache-2.0
// What the kernels of attention by tiles share: which rows of which head a block and a warp have,
// what they see, and how the next tiles come.
#pragma once

#include "engine/backends/cuda/module/device.h"
#include "engine/backends/cuda/module/language_kernels.h"
#include "engine/backends/cuda/module/tensor_core.h"

namespace tessera::device {

inline constexpr int tile_rows = 64;
inline constexpr int block_threads = 128;
inline constexpr float log2_e = 1.44269504F;
inline constexpr float lowest = -3.0e38F;

template <class T>
using Heads = HeadArrays<const T*>;

// A warp has this many times 16 rows: what it loads of the other matrix serves all of them. Sums of
// longer ones do not fit into registers.
template <int D>
inline constexpr int groups_of = D == 64 ? 2 : 1;

// What one block works on: a head, and `groups` times 64 rows of it that begin at `first`.
struct Place {
  std::int64_t batch, head, first;
  int warp_row, group, pair;  // of this warp among the rows; of this lane in the warp's fragments

  __device__ Place(std::int64_t tile, int groups)
      : batch(blockIdx.z),
        head(blockIdx.y),
        first(tile * tile_rows * groups),
        warp_row(static_cast<int>(threadIdx.x / warp_threads) * 16 * groups),
        group(static_cast<int>(threadIdx.x % warp_threads) / 4),
        pair(static_cast<int>(threadIdx.x % warp_threads) % 4) {}
};

__device__ inline std::int64_t kv_offset(const AttentionShape& s, std::int64_t batch,
                                         std::int64_t kv_head, std::int64_t token) {
  return (batch * s.length + token) * s.kv_stride + kv_head * s.head_dim;
}
__device__ inline std::int64_t q_offset(const AttentionShape& s, std::int64_t batch,
                                        std::int64_t head, std::int64_t token) {
  return (batch * s.length + token) * s.q_stride + head * s.head_dim;
}
__device__ inline std::int64_t out_offset(const AttentionShape& s, std::int64_t batch,
                                          std::int64_t head, std::int64_t token) {
  return (batch * s.length + token) * s.out_stride() + head * s.head_dim;
}

// 16 rows from `row` on do not see columns behind themselves, of which those of p begin at
// `column`; `transposed`: columns do not see rows.
template <int N>
__device__ inline void mask(float (&p)[N][4], int lane, int row, int column,
                            bool transposed = false) {
#pragma unroll
  for (int n = 0; n < N; ++n) {
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      const int r = row + lane / 4 + k / 2 * 8;
      const int c = column + n * 8 + lane % 4 * 2 + k % 2;
      if (transposed ? c < r : c > r) p[n][k] = lowest;
    }
  }
}
template <int N>
__device__ inline void mask(float (&p)[N][4], const Place& at, int row, int column,
                            bool transposed = false) {
  mask(p, at.group * 4 + at.pair, row, column, transposed);
}

// 2 to the power of a score, times the scale and log2_e, minus this is the weight.
__device__ inline float weight_offset(const float* statistics, std::int64_t row) {
  return statistics[2 * row] * log2_e - log2f(statistics[2 * row + 1]);
}

// All rows of a block, in `groups` tiles that follow each other.
template <class T, int D>
__device__ inline void load_rows(const Tile<T, D>& to, int groups, const T* from,
                                 std::int64_t row_stride, std::int64_t count, std::int64_t width) {
  for (int g = 0; g < groups; ++g) {
    const Tile<T, D> part{to.at + g * Tile<T, D>::numbers};
    part.load(from + g * tile_rows * row_stride, row_stride, count - g * tile_rows, width);
  }
}

// A tile of keys and one of values, and what was to be copied before.
template <class T, int D>
__device__ inline void fetch_keys(const TilePairs<T, D>& keys, const AttentionShape& s,
                                  const Heads<T>& in, std::int64_t batch, std::int64_t kv_head,
                                  std::int64_t tile) {
  const std::int64_t first = tile * tile_rows;
  const std::int64_t kv = kv_offset(s, batch, kv_head, first);
  keys.first(tile).load(in.k + kv, s.kv_stride, s.length - first, s.head_dim);
  keys.second(tile).load(in.v + kv, s.kv_stride, s.length - first, s.head_dim);
  end_copies();
}

// The last tile of keys that rows before `end` see.
__device__ inline std::int64_t last_tile(const AttentionShape& s, std::int64_t end) {
  return ((end < s.length ? end : s.length) - 1) / tile_rows;
}

// For all copies of all threads, but for those of the next tiles.
__device__ inline void wait_for(bool next_on_its_way) {
  if (next_on_its_way) {
    wait_for_copies<1>();
  } else {
    wait_for_copies<0>();
  }
  __syncthreads();
}

template <class T>
Heads<T> typed(const HeadArrays<ConstArray>& in) {
  return {in.q.as<T>(), in.k.as<T>(), in.v.as<T>()};
}

inline float scale_of(const AttentionShape& s) {
  return s.scale > 0 ? s.scale : 1.0F / sqrtf(static_cast<float>(s.head_dim));
}

inline dim3 blocks(const AttentionShape& s, std::int64_t heads, int groups) {
  const std::int64_t rows = tile_rows * groups;
  return dim3(static_cast<unsigned>((s.length + rows - 1) / rows), static_cast<unsigned>(heads),
              static_cast<unsigned>(s.batch));
}

// Of `operands` whose rows are a block's, and pairs of the others.
template <class T, int d>
std::size_t tile_bytes(int operands) {
  return static_cast<std::size_t>(operands * groups_of<d> + TilePairs<T, d>::tiles) *
         Tile<T, d>::bytes;
}

// Calls f with a null pointer to tiles as the heads of `s` need them.
template <class T, class F>
auto with_width(std::int64_t head_dim, const F& f) {
  if (head_dim <= 32) return f(static_cast<Tile<T, 32>*>(nullptr));
  if (head_dim <= 64) return f(static_cast<Tile<T, 64>*>(nullptr));
  return f(static_cast<Tile<T, 128>*>(nullptr));
}
template <class F>
auto with_tile(const AttentionShape& s, const F& f) {
  if (s.dtype == DType::float16) return with_width<Float16>(s.head_dim, f);
  return with_width<BFloat16>(s.head_dim, f);
}

}  // namespace tessera::device
