// SPDX-License-Identifier: Apache-2.0
// The gradients of attention by tiles: those of queries and those of keys and values are two
// kernels, so that each sum belongs to one warp.
#include "engine/backends/cuda/module/attention_tiles.h"
#include "engine/backends/cuda/module/language_kernels.h"

namespace tessera::device {
namespace {

// Columns of weights that a warp has at a time in backward, in eights: of the gradients of queries
// and of keys. The sums are the same with any number; nvcc 13 spills registers for Blackwell with 4
// of keys and heads of 64.
template <int D>
constexpr int query_eights = D == 64 ? 4 : 8;
#if defined(TESSERA_OF_BLACKWELL) || (defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 1000)
constexpr int key_eights_of_64 = 2;
#else
constexpr int key_eights_of_64 = 4;
#endif
template <int D>
constexpr int key_eights = D < 64 ? 8 : (D == 64 ? key_eights_of_64 : 4);

// Per query: its weight_offset, and the product of output and gradient.
struct alignas(8) RowNumbers {
  float offset, along;
};

__device__ RowNumbers row_numbers(const AttentionShape& s, const float* statistics,
                                  const float* along, std::int64_t batch, std::int64_t head,
                                  std::int64_t t) {
  if (t >= s.length) return {-lowest, 0};
  const std::int64_t row = (batch * s.heads + head) * s.length + t;
  return {weight_offset(statistics, row), along[row]};
}

// Scores become weights; products of gradients and values become gradients of scores, but for the
// scale. numbers_of(i) are those of the query of number i.
template <int N, class NumbersOf>
__device__ void weigh(float (&p)[N][4], float (&ds)[N][4], float scale,
                      const NumbersOf& numbers_of) {
#pragma unroll
  for (int i = 0; i < 4 * N; ++i) {
    const RowNumbers& numbers = numbers_of(i);
    float& weight = p[i / 4][i % 4];
    weight = power_of_two(weight * (scale * log2_e) - numbers.offset);
    ds[i / 4][i % 4] = weight * (ds[i / 4][i % 4] - numbers.along);
  }
}

template <class T, int D>
__global__ void __launch_bounds__(block_threads)
    tiles_query_gradient_kernel(AttentionShape s, Heads<T> in, const T* dout,
                                const float* statistics, const float* along, T* dq, float scale) {
  constexpr int G = groups_of<D>;
  constexpr int N = query_eights<D>;
  auto* const shared = reinterpret_cast<T*>(shared_bytes());
  const Tile<T, D> q{shared};
  const Tile<T, D> gradient{q.at + G * Tile<T, D>::numbers};
  const TilePairs<T, D> keys{gradient.at + G * Tile<T, D>::numbers};
  const std::int64_t tile = gridDim.x - 1 - blockIdx.x;
  const Place at(tile, G);
  const std::int64_t kv_head = at.head / (s.heads / s.kv_heads);
  const std::int64_t rows = s.length - at.first;
  load_rows(q, G, in.q + q_offset(s, at.batch, at.head, at.first), s.q_stride, rows, s.head_dim);
  load_rows(gradient, G, dout + out_offset(s, at.batch, at.head, at.first), s.out_stride(), rows,
            s.head_dim);
  fetch_keys(keys, s, in, at.batch, kv_head, 0);
  RowNumbers own[G][2];
#pragma unroll
  for (int i = 0; i < 2 * G; ++i) {
    own[i / 2][i % 2] = row_numbers(s, statistics, along, at.batch, at.head,
                                    at.first + at.warp_row + at.group + 8 * i);
  }
  float sums[G][D / 8][4] = {};
  const std::int64_t last = last_tile(s, at.first + tile_rows * G);
  for (std::int64_t other = 0; other <= last; ++other) {
    __syncthreads();
    if (other < last) fetch_keys(keys, s, in, at.batch, kv_head, other + 1);
    wait_for(other < last);
    for (int part = 0; part < tile_rows; part += 8 * N) {
      const int column = static_cast<int>(other * tile_rows - at.first) + part;
      if (column >= at.warp_row + 16 * G) break;
      float p[G][N][4] = {};
      float ds[G][N][4] = {};
      multiply_transposed(p, SharedRows<T, D>{q, at.warp_row}, keys.first(other), part);
      multiply_transposed(ds, SharedRows<T, D>{gradient, at.warp_row}, keys.second(other), part);
#pragma unroll
      for (int g = 0; g < G; ++g) {
        const int row = at.warp_row + 16 * g;
        if (column + 8 * N > row) mask(p[g], at, row, column);
        weigh(p[g], ds[g], scale, [&](int i) -> const RowNumbers& { return own[g][i % 4 / 2]; });
      }
      multiply(sums, ds, keys.first(other), part);
    }
  }
  const float factor[2] = {scale, scale};
#pragma unroll
  for (int g = 0; g < G; ++g) {
    store_rows<D>(sums[g], factor, dq + q_offset(s, at.batch, at.head, at.first), s.q_stride,
                  at.warp_row + 16 * g, rows, s.head_dim);
  }
}

// A block has keys, the rows of its fragments; queries are their columns.
template <class T, int D>
__global__ void __launch_bounds__(block_threads)
    tiles_key_gradient_kernel(AttentionShape s, Heads<T> in, const T* dout, const float* statistics,
                              const float* along, T* dk, T* dv, float scale) {
  constexpr int G = groups_of<D>;
  constexpr int N = key_eights<D>;
  __shared__ RowNumbers queries[tile_rows];
  auto* const shared = reinterpret_cast<T*>(shared_bytes());
  const Tile<T, D> k{shared};
  const Tile<T, D> v{k.at + G * Tile<T, D>::numbers};
  const TilePairs<T, D> pairs{v.at + G * Tile<T, D>::numbers};  // of queries and their gradients
  const Place at(blockIdx.x, G);                                // whose head is one of keys
  const std::int64_t kv = kv_offset(s, at.batch, at.head, at.first);
  const std::int64_t rows = s.length - at.first;
  load_rows(k, G, in.k + kv, s.kv_stride, rows, s.head_dim);
  load_rows(v, G, in.v + kv, s.kv_stride, rows, s.head_dim);
  const int group = static_cast<int>(s.heads / s.kv_heads);
  const int query_tiles = static_cast<int>(last_tile(s, s.length) + 1 - at.first / tile_rows);
  const auto head_of = [&](int step) { return at.head * group + step / query_tiles; };
  const auto tile_of = [&](int step) { return at.first / tile_rows + step % query_tiles; };
  const auto fetch = [&](int step) {
    const std::int64_t first = tile_of(step) * tile_rows;
    pairs.first(step).load(in.q + q_offset(s, at.batch, head_of(step), first), s.q_stride,
                           s.length - first, s.head_dim);
    pairs.second(step).load(dout + out_offset(s, at.batch, head_of(step), first), s.out_stride(),
                            s.length - first, s.head_dim);
    end_copies();
  };
  fetch(0);
  float of_keys[G][D / 8][4] = {};
  float of_values[G][D / 8][4] = {};
  const int steps = group * query_tiles;
  for (int step = 0; step < steps; ++step) {
    const std::int64_t other = tile_of(step);
    const Tile<T, D> q = pairs.first(step);
    const Tile<T, D> gradient = pairs.second(step);
    __syncthreads();
    if (step + 1 < steps) fetch(step + 1);
    if (threadIdx.x < tile_rows) {
      queries[threadIdx.x] = row_numbers(s, statistics, along, at.batch, head_of(step),
                                         other * tile_rows + threadIdx.x);
    }
    wait_for(step + 1 < steps);
    for (int part = 0; part < tile_rows; part += 8 * N) {
      const int column = static_cast<int>(other * tile_rows - at.first) + part;
      if (column + 8 * N <= at.warp_row) continue;  // all of it is before this warp's keys
      float p[G][N][4] = {};
      float ds[G][N][4] = {};
      multiply_transposed(p, SharedRows<T, D>{k, at.warp_row}, q, part);
      multiply_transposed(ds, SharedRows<T, D>{v, at.warp_row}, gradient, part);
#pragma unroll
      for (int g = 0; g < G; ++g) {
        const int row = at.warp_row + 16 * g;
        if (column < row + 16) mask(p[g], at, row, column, true);
        weigh(p[g], ds[g], scale, [&](int i) -> const RowNumbers& {
          return queries[part + i / 4 * 8 + at.pair * 2 + i % 2];
        });
      }
      multiply(of_values, p, gradient, part);
      multiply(of_keys, ds, q, part);
    }
  }
  const float factors[2][2] = {{scale, scale}, {1, 1}};
#pragma unroll
  for (int g = 0; g < G; ++g) {
    const int row = at.warp_row + 16 * g;
    store_rows<D>(of_keys[g], factors[0], dk + kv, s.kv_stride, row, rows, s.head_dim);
    store_rows<D>(of_values[g], factors[1], dv + kv, s.kv_stride, row, rows, s.head_dim);
  }
}

}  // namespace

int tiles_backward(const AttentionShape& s, const HeadArrays<ConstArray>& in,
                   const AttentionOut& out, const float* statistics,
                   const HeadArrays<Array>& gradients, const float* along, CudaStream stream) {
  return with_tile(s, [&]<class T, int d>(Tile<T, d>*) {
    const int code = launch(tiles_query_gradient_kernel<T, d>,
                            {blocks(s, s.heads, groups_of<d>), block_threads, tile_bytes<T, d>(2)},
                            stream, s, typed<T>(in), out.gradient.as<T>(), statistics, along,
                            gradients.q.as<T>(), scale_of(s));
    if (code != 0) return code;
    return launch(tiles_key_gradient_kernel<T, d>,
                  {blocks(s, s.kv_heads, groups_of<d>), block_threads, tile_bytes<T, d>(2)}, stream,
                  s, typed<T>(in), out.gradient.as<T>(), statistics, along, gradients.k.as<T>(),
                  gradients.v.as<T>(), scale_of(s));
  });
}

}  // namespace tessera::device
