// SPDX-License-Identifier: Apache-2.0
// Causal attention of bfloat16 or float16 heads with tensor cores: 64 rows of queries against 64
// keys at a time, 16 rows to a warp (FlashAttention-2, arXiv 2307.08691, algorithms 1 and 2). In
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

// What one block works on: a head, and 64 rows of it that begin at `first`.
struct Place {
  std::int64_t batch, head, first;
  int warp_row, group, pair;  // of this warp among the 64; of this lane in the warp's fragments

  __device__ Place(std::int64_t tile)
      : batch(blockIdx.z),
        head(blockIdx.y),
        first(tile * tile_rows),
        warp_row(static_cast<int>(threadIdx.x / warp_threads) * 16),
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

// On the diagonal: rows do not see keys behind themselves. `transposed`: rows are keys.
__device__ void mask(float (&p)[8][4], const Place& at, bool transposed = false) {
#pragma unroll
  for (int n = 0; n < 8; ++n) {
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      const int row = at.warp_row + at.group + k / 2 * 8;
      const int column = n * 8 + at.pair * 2 + k % 2;
      if (transposed ? column < row : column > row) p[n][k] = lowest;
    }
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
  auto* const shared = reinterpret_cast<T*>(shared_bytes());
  const Tile<T, D> q{shared};
  const TilePairs<T, D> keys{q.at + Tile<T, D>::numbers};
  const std::int64_t tile = gridDim.x - 1 - blockIdx.x;  // the longest first
  const Place at(tile);
  const std::int64_t kv_head = at.head / (s.heads / s.kv_heads);
  q.load(in.q + q_offset(s, at.batch, at.head, at.first), s.q_stride, s.length - at.first,
         s.head_dim);
  fetch_keys(keys, s, in, at.batch, kv_head, 0);
  RowFragments<T, D> own;
  float sums[D / 8][4] = {};
  Softmax softmax;
  for (std::int64_t other = 0; other <= tile; ++other) {
    __syncthreads();  // nobody needs the last keys any more
    if (other < tile) fetch_keys(keys, s, in, at.batch, kv_head, other + 1);
    wait_for(other < tile);
    float p[8][4] = {};
    if (other == 0) own.load(q, at.warp_row);
    multiply_transposed(p, own, keys.first(other));
    if (other == tile) mask(p, at);
    float shrink[2];
    softmax.take(p, shrink, scale * log2_e);
#pragma unroll
    for (int n = 0; n < D / 8; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) sums[n][i] *= shrink[i / 2];
    }
    multiply(sums, p, keys.second(other));
  }
  float inverse[2];
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    inverse[half] = 1.0F / row_sum(softmax.sum[half]);
    const std::int64_t t = at.first + at.warp_row + at.group + 8 * half;
    if (at.pair != 0 || t >= s.length) continue;
    float* const to = statistics + 2 * ((at.batch * s.heads + at.head) * s.length + t);
    to[0] = softmax.most[half] * scale;
    to[1] = inverse[half];
  }
  store_rows<D>(sums, inverse, out + out_offset(s, at.batch, at.head, at.first), s.out_stride(),
                at.warp_row, s.length - at.first, s.head_dim);
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
  auto* const shared = reinterpret_cast<T*>(shared_bytes());
  const Tile<T, D> q{shared};
  const Tile<T, D> g{q.at + Tile<T, D>::numbers};
  const TilePairs<T, D> keys{g.at + Tile<T, D>::numbers};
  const std::int64_t tile = gridDim.x - 1 - blockIdx.x;
  const Place at(tile);
  const std::int64_t kv_head = at.head / (s.heads / s.kv_heads);
  const std::int64_t rows = s.length - at.first;
  q.load(in.q + q_offset(s, at.batch, at.head, at.first), s.q_stride, rows, s.head_dim);
  g.load(dout + out_offset(s, at.batch, at.head, at.first), s.out_stride(), rows, s.head_dim);
  fetch_keys(keys, s, in, at.batch, kv_head, 0);
  RowNumbers own[2];
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    own[half] = row_numbers(s, statistics, along, at.batch, at.head,
                            at.first + at.warp_row + at.group + 8 * half);
  }
  float sums[D / 8][4] = {};
  for (std::int64_t other = 0; other <= tile; ++other) {
    __syncthreads();
    if (other < tile) fetch_keys(keys, s, in, at.batch, kv_head, other + 1);
    wait_for(other < tile);
    float p[8][4] = {};
    float ds[8][4] = {};
    multiply_transposed(p, q, at.warp_row, keys.first(other));
    if (other == tile) mask(p, at);
    multiply_transposed(ds, g, at.warp_row, keys.second(other));
#pragma unroll
    for (int n = 0; n < 8; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const RowNumbers& row = own[i / 2];
        const float weight = power_of_two(p[n][i] * (scale * log2_e) - row.offset);
        ds[n][i] = weight * (ds[n][i] - row.along);
      }
    }
    multiply(sums, ds, keys.first(other));
  }
  const float factor[2] = {scale, scale};
  store_rows<D>(sums, factor, dq + q_offset(s, at.batch, at.head, at.first), s.q_stride,
                at.warp_row, rows, s.head_dim);
}

// A block has 64 keys, the rows of its fragments; queries are their columns.
template <class T, int D>
__global__ void __launch_bounds__(block_threads)
    tiles_key_gradient_kernel(AttentionShape s, Heads<T> in, const T* dout, const float* statistics,
                              const float* along, T* dk, T* dv, float scale) {
  __shared__ RowNumbers queries[tile_rows];
  auto* const shared = reinterpret_cast<T*>(shared_bytes());
  const Tile<T, D> k{shared};
  const Tile<T, D> v{k.at + Tile<T, D>::numbers};
  const TilePairs<T, D> pairs{v.at + Tile<T, D>::numbers};  // of queries and their gradients
  const std::int64_t tile = blockIdx.x;
  const Place at(tile);  // whose head is one of keys
  const std::int64_t kv = kv_offset(s, at.batch, at.head, at.first);
  k.load(in.k + kv, s.kv_stride, s.length - at.first, s.head_dim);
  v.load(in.v + kv, s.kv_stride, s.length - at.first, s.head_dim);
  const int group = static_cast<int>(s.heads / s.kv_heads);
  const int seen_by = static_cast<int>(gridDim.x - blockIdx.x);  // tiles of queries, per head
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
  float of_keys[D / 8][4] = {};
  float of_values[D / 8][4] = {};
  const int steps = group * seen_by;
  for (int step = 0; step < steps; ++step) {
    const std::int64_t other = tile_of(step);
    const Tile<T, D> q = pairs.first(step);
    const Tile<T, D> g = pairs.second(step);
    __syncthreads();
    if (step + 1 < steps) fetch(step + 1);
    if (threadIdx.x < tile_rows) {
      queries[threadIdx.x] = row_numbers(s, statistics, along, at.batch, head_of(step),
                                         other * tile_rows + threadIdx.x);
    }
    wait_for(step + 1 < steps);
    float p[8][4] = {};
    float ds[8][4] = {};
    multiply_transposed(p, k, at.warp_row, q);
    if (other == tile) mask(p, at, true);
    multiply_transposed(ds, v, at.warp_row, g);
#pragma unroll
    for (int n = 0; n < 8; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int column = n * 8 + at.pair * 2 + i % 2;
        const RowNumbers& row = queries[column];
        p[n][i] = power_of_two(p[n][i] * (scale * log2_e) - row.offset);
        ds[n][i] = p[n][i] * (ds[n][i] - row.along);
      }
    }
    multiply(of_values, p, g);
    multiply(of_keys, ds, q);
  }
  const float one[2] = {1, 1};
  const float factor[2] = {scale, scale};
  store_rows<D>(of_keys, factor, dk + kv, s.kv_stride, at.warp_row, s.length - at.first,
                s.head_dim);
  store_rows<D>(of_values, one, dv + kv, s.kv_stride, at.warp_row, s.length - at.first, s.head_dim);
}

template <class T>
Heads<T> typed(const HeadArrays<ConstArray>& in) {
  return {in.q.as<T>(), in.k.as<T>(), in.v.as<T>()};
}

float scale_of(const AttentionShape& s) {
  return s.scale > 0 ? s.scale : 1.0F / sqrtf(static_cast<float>(s.head_dim));
}

dim3 blocks(const AttentionShape& s, std::int64_t heads) {
  const std::int64_t tiles = (s.length + tile_rows - 1) / tile_rows;
  return dim3(static_cast<unsigned>(tiles), static_cast<unsigned>(heads),
              static_cast<unsigned>(s.batch));
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
  return with_tile(s, []<class T, int d>(Tile<T, d>*) -> std::size_t {
    return (2 + TilePairs<T, d>::tiles) * Tile<T, d>::bytes;
  });
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
    return launch(
        tiles_forward_kernel<T, d>,
        {blocks(s, s.heads), block_threads, (1 + TilePairs<T, d>::tiles) * Tile<T, d>::bytes},
        stream, s, typed<T>(in), out.as<T>(), statistics, scale_of(s));
  });
}

int tiles_backward(const AttentionShape& s, const HeadArrays<ConstArray>& in,
                   const AttentionOut& out, const float* statistics,
                   const HeadArrays<Array>& gradients, const float* along, CudaStream stream) {
  return with_tile(s, [&]<class T, int d>(Tile<T, d>*) {
    const int code = launch(
        tiles_query_gradient_kernel<T, d>,
        {blocks(s, s.heads), block_threads, (2 + TilePairs<T, d>::tiles) * Tile<T, d>::bytes},
        stream, s, typed<T>(in), out.gradient.as<T>(), statistics, along, gradients.q.as<T>(),
        scale_of(s));
    if (code != 0) return code;
    return launch(
        tiles_key_gradient_kernel<T, d>,
        {blocks(s, s.kv_heads), block_threads, (2 + TilePairs<T, d>::tiles) * Tile<T, d>::bytes},
        stream, s, typed<T>(in), out.gradient.as<T>(), statistics, along, gradients.k.as<T>(),
        gradients.v.as<T>(), scale_of(s));
  });
}

}  // namespace tessera::device
