// SPDX-License-Identifier: Apache-2.0
// Causal attention of bfloat16 or float16 heads with tensor cores: rows of queries against 64 keys
// at a time, 16 or 32 rows to a warp (FlashAttention-2, arXiv 2307.08691, algorithms 1 and 2). In
// backward the gradients of queries and of keys are two kernels, so that each sum belongs to one
// warp and has one order. The next tiles come while the last ones are multiplied.
#include "engine/backends/cuda/module/device.h"
#include "engine/backends/cuda/module/language_kernels.h"
#include "engine/backends/cuda/module/tensor_core.h"

namespace tessera::device {
namespace {

constexpr int tile_rows = 64;
constexpr int block_threads = 128;
constexpr float log2_e = 1.44269504F;
constexpr float lowest = -3.0e38F;

template <class T>
using Heads = HeadArrays<const T*>;

// A warp has this many times 16 rows: what it loads of the other matrix serves all of them. Sums of
// longer ones do not fit into registers.
template <int D>
constexpr int groups_of = D == 64 ? 2 : 1;

// Columns of weights that a warp has at a time in backward, in eights: of the gradients of queries
// and of keys.
template <int D>
constexpr int query_eights = D == 64 ? 4 : 8;
template <int D>
constexpr int key_eights = D >= 64 ? 4 : 8;

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

__device__ std::int64_t kv_offset(const AttentionShape& s, std::int64_t batch, std::int64_t kv_head,
                                  std::int64_t token) {
  return (batch * s.length + token) * s.kv_stride + kv_head * s.head_dim;
}
__device__ std::int64_t q_offset(const AttentionShape& s, std::int64_t batch, std::int64_t head,
                                 std::int64_t token) {
  return (batch * s.length + token) * s.q_stride + head * s.head_dim;
}
__device__ std::int64_t out_offset(const AttentionShape& s, std::int64_t batch, std::int64_t head,
                                   std::int64_t token) {
  return (batch * s.length + token) * s.out_stride() + head * s.head_dim;
}

// Of the four lanes that share a row.
__device__ float row_sum(float x) {
  x += __shfl_xor_sync(0xFFFFFFFFU, x, 1);
  return x + __shfl_xor_sync(0xFFFFFFFFU, x, 2);
}
__device__ float row_largest(float x) {
  x = fmaxf(x, __shfl_xor_sync(0xFFFFFFFFU, x, 1));
  return fmaxf(x, __shfl_xor_sync(0xFFFFFFFFU, x, 2));
}

// Scores become weights that are relative to the largest score so far.
struct Softmax {
  float most[2] = {lowest, lowest};
  float sum[2] = {0, 0};  // of this lane's columns

  // Returns in `shrink` by how much what was summed before counts less.
  __device__ void take(float (&p)[8][4], float (&shrink)[2], float scale) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float larger = most[half];
#pragma unroll
      for (int n = 0; n < 8; ++n) {
        larger = fmaxf(larger, fmaxf(p[n][2 * half], p[n][2 * half + 1]));
      }
      larger = row_largest(larger);
      shrink[half] = power_of_two((most[half] - larger) * scale);
      most[half] = larger;
      const float offset = larger * scale;
      float own = 0;
#pragma unroll
      for (int n = 0; n < 8; ++n) {
#pragma unroll
        for (int k = 2 * half; k < 2 * half + 2; ++k) {
          p[n][k] = power_of_two(p[n][k] * scale - offset);
          own += p[n][k];
        }
      }
      sum[half] = sum[half] * shrink[half] + own;
    }
  }
};

// 16 rows from `row` on do not see columns behind themselves, of which those of p begin at
// `column`; `transposed`: columns do not see rows.
template <int N>
__device__ void mask(float (&p)[N][4], const Place& at, int row, int column,
                     bool transposed = false) {
#pragma unroll
  for (int n = 0; n < N; ++n) {
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      const int r = row + at.group + k / 2 * 8;
      const int c = column + n * 8 + at.pair * 2 + k % 2;
      if (transposed ? c < r : c > r) p[n][k] = lowest;
    }
  }
}

// All rows of a block, in `groups` tiles that follow each other.
template <class T, int D>
__device__ void load_rows(const Tile<T, D>& to, int groups, const T* from, std::int64_t row_stride,
                          std::int64_t count, std::int64_t width) {
  for (int g = 0; g < groups; ++g) {
    const Tile<T, D> part{to.at + g * Tile<T, D>::numbers};
    part.load(from + g * tile_rows * row_stride, row_stride, count - g * tile_rows, width);
  }
}

// A tile of keys and one of values, and what was to be copied before.
template <class T, int D>
__device__ void fetch_keys(const TilePairs<T, D>& keys, const AttentionShape& s, const Heads<T>& in,
                           std::int64_t batch, std::int64_t kv_head, std::int64_t tile) {
  const std::int64_t first = tile * tile_rows;
  const std::int64_t kv = kv_offset(s, batch, kv_head, first);
  keys.first(tile).load(in.k + kv, s.kv_stride, s.length - first, s.head_dim);
  keys.second(tile).load(in.v + kv, s.kv_stride, s.length - first, s.head_dim);
  end_copies();
}

// The last tile of keys that rows before `end` see.
__device__ std::int64_t last_tile(const AttentionShape& s, std::int64_t end) {
  return ((end < s.length ? end : s.length) - 1) / tile_rows;
}

// For all copies of all threads, but for those of the next tiles.
__device__ void wait_for(bool next_on_its_way) {
  if (next_on_its_way) {
    wait_for_copies<1>();
  } else {
    wait_for_copies<0>();
  }
  __syncthreads();
}

template <class T, int D>
__global__ void __launch_bounds__(block_threads)
    tiles_forward_kernel(AttentionShape s, Heads<T> in, T* out, float* statistics, float scale) {
  constexpr int G = groups_of<D>;
  auto* const shared = reinterpret_cast<T*>(shared_bytes());
  const Tile<T, D> q{shared};
  const TilePairs<T, D> keys{q.at + G * Tile<T, D>::numbers};
  const std::int64_t tile = gridDim.x - 1 - blockIdx.x;  // the longest first
  const Place at(tile, G);
  const std::int64_t kv_head = at.head / (s.heads / s.kv_heads);
  const std::int64_t rows = s.length - at.first;
  load_rows(q, G, in.q + q_offset(s, at.batch, at.head, at.first), s.q_stride, rows, s.head_dim);
  fetch_keys(keys, s, in, at.batch, kv_head, 0);
  KeptRows<T, D, G> own;
  float sums[G][D / 8][4] = {};
  Softmax softmax[G];
  const std::int64_t last = last_tile(s, at.first + tile_rows * G);
  for (std::int64_t other = 0; other <= last; ++other) {
    __syncthreads();  // nobody needs the last keys any more
    if (other < last) fetch_keys(keys, s, in, at.batch, kv_head, other + 1);
    wait_for(other < last);
    if (other == 0) own.load(SharedRows<T, D>{q, at.warp_row});
    const int column = static_cast<int>(other * tile_rows - at.first);
    if (column >= at.warp_row + 16 * G) continue;  // all of it is behind this warp's rows
    float p[G][8][4] = {};
    multiply_transposed(p, own, keys.first(other), 0);
#pragma unroll
    for (int g = 0; g < G; ++g) {
      const int row = at.warp_row + 16 * g;
      if (column + tile_rows > row) mask(p[g], at, row, column);
      float shrink[2];
      softmax[g].take(p[g], shrink, scale * log2_e);
#pragma unroll
      for (int n = 0; n < D / 8; ++n) {
#pragma unroll
        for (int i = 0; i < 4; ++i) sums[g][n][i] *= shrink[i / 2];
      }
    }
    multiply(sums, p, keys.second(other), 0);
  }
#pragma unroll
  for (int g = 0; g < G; ++g) {
    const int row = at.warp_row + 16 * g;
    float inverse[2];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      inverse[half] = 1.0F / row_sum(softmax[g].sum[half]);
      const std::int64_t t = at.first + row + at.group + 8 * half;
      if (at.pair != 0 || t >= s.length) continue;
      float* const to = statistics + 2 * ((at.batch * s.heads + at.head) * s.length + t);
      to[0] = softmax[g].most[half] * scale;
      to[1] = inverse[half];
    }
    store_rows<D>(sums[g], inverse, out + out_offset(s, at.batch, at.head, at.first),
                  s.out_stride(), row, rows, s.head_dim);
  }
}

// Per query: what makes 2 to the power of a score minus it the weight, and the product of output
// and gradient.
struct alignas(8) RowNumbers {
  float offset, along;
};

__device__ RowNumbers row_numbers(const AttentionShape& s, const float* statistics,
                                  const float* along, std::int64_t batch, std::int64_t head,
                                  std::int64_t t) {
  if (t >= s.length) return {-lowest, 0};
  const std::int64_t row = (batch * s.heads + head) * s.length + t;
  return {statistics[2 * row] * log2_e - log2f(statistics[2 * row + 1]), along[row]};
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
#pragma unroll
        for (int i = 0; i < 4 * N; ++i) {
          const RowNumbers& numbers = own[g][i % 4 / 2];
          const float weight = power_of_two(p[g][i / 4][i % 4] * (scale * log2_e) - numbers.offset);
          ds[g][i / 4][i % 4] = weight * (ds[g][i / 4][i % 4] - numbers.along);
        }
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
  const std::int64_t tile = at.first / tile_rows;  // the first one of queries
  const int seen_by = static_cast<int>(last_tile(s, s.length) + 1 - tile);  // tiles, per head
  const auto head_of = [&](int step) { return at.head * group + step / seen_by; };
  const auto tile_of = [&](int step) { return tile + step % seen_by; };
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
  const int steps = group * seen_by;
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
#pragma unroll
        for (int i = 0; i < 4 * N; ++i) {
          const RowNumbers& numbers = queries[part + i / 4 * 8 + at.pair * 2 + i % 2];
          float& weight = p[g][i / 4][i % 4];
          weight = power_of_two(weight * (scale * log2_e) - numbers.offset);
          ds[g][i / 4][i % 4] = weight * (ds[g][i / 4][i % 4] - numbers.along);
        }
      }
      multiply(of_values, p, gradient, part);
      multiply(of_keys, ds, q, part);
    }
  }
  const float one[2] = {1, 1};
  const float factor[2] = {scale, scale};
#pragma unroll
  for (int g = 0; g < G; ++g) {
    const int row = at.warp_row + 16 * g;
    store_rows<D>(of_keys[g], factor, dk + kv, s.kv_stride, row, rows, s.head_dim);
    store_rows<D>(of_values[g], one, dv + kv, s.kv_stride, row, rows, s.head_dim);
  }
}

template <class T>
Heads<T> typed(const HeadArrays<ConstArray>& in) {
  return {in.q.as<T>(), in.k.as<T>(), in.v.as<T>()};
}

float scale_of(const AttentionShape& s) {
  return s.scale > 0 ? s.scale : 1.0F / sqrtf(static_cast<float>(s.head_dim));
}

dim3 blocks(const AttentionShape& s, std::int64_t heads, int groups) {
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

// Of the gradients' kernels, which need the most.
std::size_t shared_bytes_of(const AttentionShape& s) {
  return with_tile(s,
                   []<class T, int d>(Tile<T, d>*) -> std::size_t { return tile_bytes<T, d>(2); });
}

}  // namespace

bool fits_tiles(const AttentionShape& s, const HeadArrays<ConstArray>& in, ConstArray out) {
  const auto aligned = [](const void* at) {
    return reinterpret_cast<std::uintptr_t>(at) % 16 == 0;
  };
  return s.dtype != DType::float32 && s.head_dim % 8 == 0 && s.head_dim <= 128 &&
         s.q_stride % 8 == 0 && s.kv_stride % 8 == 0 && aligned(in.q.data) && aligned(in.k.data) &&
         aligned(in.v.data) && aligned(out.data) && shared_bytes_of(s) <= shared_bytes_max();
}

int tiles_forward(const AttentionShape& s, const HeadArrays<ConstArray>& in, Array out,
                  float* statistics, CudaStream stream) {
  return with_tile(s, [&]<class T, int d>(Tile<T, d>*) {
    return launch(tiles_forward_kernel<T, d>,
                  {blocks(s, s.heads, groups_of<d>), block_threads, tile_bytes<T, d>(1)}, stream, s,
                  typed<T>(in), out.as<T>(), statistics, scale_of(s));
  });
}

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
