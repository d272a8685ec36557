// SPDX-License-Identifier: Apache-2.0
// LayerNorm and RMSNorm: a block has a row, and for the parameters a warp's width of columns.
#include "engine/backends/cuda/module/device.h"
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

template <class T>
__global__ void parameter_kernel(NormShape s, const float* dy, const T* normal, float* dweight,
                                 float* dbias) {
  __shared__ float weights[warps][warp_threads];
  __shared__ float biases[warps][warp_threads];
  const unsigned lane = threadIdx.x % warp_threads;
  const unsigned warp = threadIdx.x / warp_threads;
  const std::int64_t c = static_cast<std::int64_t>(blockIdx.x) * warp_threads + lane;
  float of_weight = 0;
  float of_bias = 0;
  for (std::int64_t r = warp; c < s.width && r < s.rows; r += warps) {
    const float g = dy[r * s.width + c];
    of_weight += g * load(normal[r * s.width + c]);
    of_bias += g;
  }
  weights[warp][lane] = of_weight;
  biases[warp][lane] = of_bias;
  __syncthreads();
  if (warp != 0 || c >= s.width) return;
  for (int k = 1; k < warps; ++k) {
    of_weight += weights[k][lane];
    of_bias += biases[k][lane];
  }
  dweight[c] = of_weight;
  dbias[c] = of_bias;
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
                  const float* reciprocal, float* dx, float* sums, CudaStream stream) {
  return typed_launch(normal.dtype, [&]<class T>(T*) {
    const int code = launch(backward_kernel<T>, {dim3(static_cast<unsigned>(shape.rows))}, stream,
                            shape, dy, weight, normal.as<T>(), reciprocal, dx);
    if (code != 0) return code;
    const auto strips = static_cast<unsigned>((shape.width + warp_threads - 1) / warp_threads);
    return launch(parameter_kernel<T>, {dim3(strips)}, stream, shape, dy, normal.as<T>(), sums,
                  sums + shape.width);
  });
}

}  // namespace tessera::device
