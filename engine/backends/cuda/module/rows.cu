// SPDX-License-Identifier: Apache-2.0
// Rows: embeddings and biases. Each sum belongs to one thread or one block and has a fixed order.
#include "engine/backends/cuda/module/device.h"
#include "engine/backends/cuda/module/language_kernels.h"
#include "engine/backends/cuda/module/packs.h"

namespace tessera::device {
namespace {

// A block has a row.
template <int n, class T, class Bias>
__global__ void add_bias_kernel(T* to, StoredRows rows, const Bias* bias) {
  T* const row = to + blockIdx.x * rows.stride;
  for (std::int64_t i = threadIdx.x * n; i < rows.width; i += threads * n) {
    auto sum = load_pack<T, n>(row + i);
    for (int k = 0; k < n; ++k) store(sum.at[k], load(sum.at[k]) + load(bias[i + k]));
    store_pack(row + i, sum);
  }
}

__global__ void mean_kernel(const float* values, std::int64_t numel, float* to) {
  __shared__ double parts[threads];
  double own = 0;
  for (std::int64_t i = threadIdx.x; i < numel; i += threads) own += values[i];
  parts[threadIdx.x] = own;
  __syncthreads();
  for (unsigned half = threads / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) parts[threadIdx.x] += parts[threadIdx.x + half];
    __syncthreads();
  }
  if (threadIdx.x == 0) *to = static_cast<float>(parts[0] / static_cast<double>(numel));
}

template <class T>
__global__ void gather_kernel(const T* table, TokenRows rows, std::int64_t width, float* x) {
  for (std::int64_t i = first_element(); i < rows.count * width; i += element_stride()) {
    x[i] = load(table[rows.ids[i / width] * width + i % width]);
  }
}

// A block has all places of one id, which follow each other in by_id: the first of them works.
template <class T>
__global__ void scatter_kernel(const float* dx, TokenRows rows, std::int64_t width, T* gradient) {
  const std::int64_t begin = blockIdx.x;
  const std::int32_t id = rows.ids[rows.by_id[begin]];
  if (begin > 0 && rows.ids[rows.by_id[begin - 1]] == id) return;
  if (id == rows.skipped) return;
  for (std::int64_t c = threadIdx.x; c < width; c += threads) {
    T& at = gradient[id * width + c];
    float sum = load(at);
    for (std::int64_t k = begin; k < rows.count && rows.ids[rows.by_id[k]] == id; ++k) {
      T rounded;  // as if every row was added alone
      store(rounded, sum + dx[rows.by_id[k] * width + c]);
      sum = load(rounded);
    }
    store(at, sum);
  }
}

template <class T>
__global__ void add_positions_kernel(const T* table, Positions s, float* x) {
  const std::int64_t all = s.length * s.width;
  for (std::int64_t i = first_element(); i < s.batch * all; i += element_stride()) {
    x[i] += load(table[i % all]);
  }
}

template <class T>
__global__ void sum_positions_kernel(const float* dx, Positions s, T* gradient) {
  const std::int64_t all = s.length * s.width;
  for (std::int64_t i = first_element(); i < all; i += element_stride()) {
    float sum = 0;
    for (std::int64_t b = 0; b < s.batch; ++b) sum += dx[b * all + i];
    store(gradient[i], load(gradient[i]) + sum);
  }
}

}  // namespace

int add_bias(Array to, const StoredRows& rows, ConstArray bias, CudaStream stream) {
  return typed_launch(to.dtype, [&]<class T>(T*) {
    return typed_launch(bias.dtype, [&]<class Bias>(Bias*) {
      constexpr int n = widest_pack<T>;
      const bool packs = rows.width % n == 0 && rows.stride % n == 0 && is_aligned(to.as<T>(), n);
      return launch(packs ? add_bias_kernel<n, T, Bias> : add_bias_kernel<1, T, Bias>,
                    {dim3(static_cast<unsigned>(rows.count))}, stream, to.as<T>(), rows,
                    bias.as<Bias>());
    });
  });
}

int mean(const float* values, std::int64_t numel, float* to, CudaStream stream) {
  return launch(mean_kernel, {dim3(1)}, stream, values, numel, to);
}

int gather_rows(ConstArray table, const TokenRows& rows, std::int64_t width, float* x,
                CudaStream stream) {
  return typed_launch(table.dtype, [&]<class T>(T*) {
    return launch(gather_kernel<T>, elements(rows.count * width), stream, table.as<T>(), rows,
                  width, x);
  });
}

int scatter_rows(const float* dx, const TokenRows& rows, std::int64_t width, Array gradient,
                 CudaStream stream) {
  return typed_launch(gradient.dtype, [&]<class T>(T*) {
    return launch(scatter_kernel<T>, {dim3(static_cast<unsigned>(rows.count))}, stream, dx, rows,
                  width, gradient.as<T>());
  });
}

int add_positions(ConstArray table, const Positions& shape, float* x, CudaStream stream) {
  return typed_launch(table.dtype, [&]<class T>(T*) {
    return launch(add_positions_kernel<T>, elements(shape.batch * shape.length * shape.width),
                  stream, table.as<T>(), shape, x);
  });
}

int sum_positions(const float* dx, const Positions& shape, Array gradient, CudaStream stream) {
  return typed_launch(gradient.dtype, [&]<class T>(T*) {
    return launch(sum_positions_kernel<T>, elements(shape.length * shape.width), stream, dx, shape,
                  gradient.as<T>());
  });
}

}  // namespace tessera::device
