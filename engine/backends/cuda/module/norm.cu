// SPDX-License-Identifier: Apache-2.0
// LayerNorm and RMSNorm: a block has a row, and for the parameters some rows of some columns.
#include "engine/backends/cuda/module/column_parts.h"
#include "engine/backends/cuda/module/language_kernels.h"

namespace tessera::device {
namespace {

template <class T>
__global__ void forward_kernel(NormShape s, const float* x, const float* weight, const float* bias,
                               T* y, T* normal, float* reciprocal) {
  const std::int64_t w = s.width;
  const float* const row = x + blockIdx.x * w;
  const float scale = 1.0F / static_cast<float>(w);
  float own = 0;
  for (std::int64_t i = threadIdx.x; s.centred && i < w; i += threads) own += row[i];
  const float mean = s.centred ? block_sum(own) * scale : 0.0F;
  own = 0;
  for (std::int64_t i = threadIdx.x; i < w; i += threads) {
    own += (row[i] - mean) * (row[i] - mean);
  }
  const float inverse = 1.0F / sqrtf(block_sum(own) * scale + s.epsilon);
  if (threadIdx.x == 0) reciprocal[blockIdx.x] = inverse;
  for (std::int64_t i = threadIdx.x; i < w; i += threads) {
    const float n = (row[i] - mean) * inverse;
    store(normal[blockIdx.x * w + i], n);
    store(y[blockIdx.x * w + i], bias != nullptr ? n * weight[i] + bias[i] : n * weight[i]);
  }
}

template <class T>
__global__ void backward_kernel(NormShape s, const float* dy, const float* weight, const T* normal,
                                const float* reciprocal, float* dx) {
  const std::int64_t w = s.width;
  const float* const g = dy + blockIdx.x * w;
  const T* const n = normal + blockIdx.x * w;
  float* const to = dx + blockIdx.x * w;
  const float scale = 1.0F / static_cast<float>(w);
  float all = 0;
  float product = 0;
  for (std::int64_t i = threadIdx.x; i < w; i += threads) {
    all += g[i] * weight[i];
    product += g[i] * weight[i] * load(n[i]);
  }
  const float mean = s.centred ? block_sum(all) * scale : 0.0F;
  const float along = block_sum(product) * scale;
  const float inverse = reciprocal[blockIdx.x];
  for (std::int64_t i = threadIdx.x; i < w; i += threads) {
    to[i] += inverse * (g[i] * weight[i] - mean - load(n[i]) * along);
  }
}

// As column_sums: a part's sums for the weight, then those for the bias.
template <int n, class T>
__global__ void parameter_kernel(NormShape s, const float* dy, const T* normal,
                                 std::int64_t part_rows, float* sums) {
  constexpr int strip = warp_threads * n;
  __shared__ float weights[warps][strip];
  __shared__ float biases[warps][strip];
  const unsigned lane = threadIdx.x % warp_threads;
  const unsigned warp = threadIdx.x / warp_threads;
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * strip;
  const std::int64_t begin = static_cast<std::int64_t>(blockIdx.y) * part_rows;
  const std::int64_t end = begin + part_rows < s.rows ? begin + part_rows : s.rows;
  const std::int64_t c = first + lane * n;
  float of_weight[n] = {};
  float of_bias[n] = {};
  if (c < s.width) {
#pragma unroll 4
    for (std::int64_t r = begin + warp; r < end; r += warps) {
      const auto g = load_pack<float, n>(dy + r * s.width + c);
      const auto x = load_pack<T, n>(normal + r * s.width + c);
      for (int k = 0; k < n; ++k) {
        of_weight[k] += g.at[k] * load(x.at[k]);
        of_bias[k] += g.at[k];
      }
    }
  }
  for (int k = 0; k < n; ++k) {
    weights[warp][lane * n + k] = of_weight[k];
    biases[warp][lane * n + k] = of_bias[k];
  }
  float* const to = sums + blockIdx.y * 2 * s.width + first;
  add_warps(weights, s.width - first, to);
  add_warps(biases, s.width - first, to + s.width);
}

}  // namespace

int norm_forward(const NormShape& shape, const float* x, const float* weight, const float* bias,
                 Array y, Array normal, float* reciprocal, CudaStream stream) {
  return typed_launch(y.dtype, [&]<class T>(T*) {
    return launch(forward_kernel<T>, {dim3(static_cast<unsigned>(shape.rows))}, stream, shape, x,
                  weight, bias, y.as<T>(), normal.as<T>(), reciprocal);
  });
}

int norm_backward(const NormShape& shape, const float* dy, const float* weight, ConstArray normal,
                  const float* reciprocal, float* dx, float* sums, void* scratch,
                  CudaStream stream) {
  const ColumnParts parts = ColumnParts::of(shape.rows, 2 * shape.width);
  float* const to = parts.count == 1 ? sums : static_cast<float*>(scratch);
  const int code = typed_launch(normal.dtype, [&]<class T>(T*) {
    const int first = launch(backward_kernel<T>, {dim3(static_cast<unsigned>(shape.rows))}, stream,
                             shape, dy, weight, normal.as<T>(), reciprocal, dx);
    if (first != 0) return first;
    constexpr int n = widest_pack<float>;
    const bool packs = shape.width % n == 0 && is_aligned(dy, n) && is_aligned(normal.as<T>(), n);
    const std::int64_t strip = warp_threads * (packs ? n : 1);
    const dim3 blocks(static_cast<unsigned>((shape.width + strip - 1) / strip),
                      static_cast<unsigned>(parts.count));
    return launch(packs ? parameter_kernel<n, T> : parameter_kernel<1, T>, {blocks}, stream, shape,
                  dy, normal.as<T>(), parts.rows, to);
  });
  if (code != 0 || parts.count == 1) return code;
  return add_parts(to, parts.count, 2 * shape.width, sums, stream);
}

}  // namespace tessera::device
