// SPDX-License-Identifier: Apache-2.0
// Causal attention of bfloat16 or float16 heads with tensor cores: rows of queries against 64 keys
// at a time, 16 or 32 rows to a warp (FlashAttention-2, arXiv 2307.08691, algorithms 1 and 2). In
// backward the gradients of queries and of keys are two kernels, so that each sum belongs to one
// warp and has one order. The next tiles come while the last ones are multiplied.
#include "engine/backends/cuda/module/attention_tiles.h"
#include "engine/backends/cuda/module/language_kernels.h"
#include "engine/backends/cuda/module/softmax_tiles.h"

namespace tessera::device {
namespace {

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
  Softmax<8> softmax[G];
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

}  // namespace tessera::device
