// SPDX-License-Identifier: Apache-2.0
// Cross entropy of rows of logits: each is read once for the sum of its exponentials and once for
// the gradient (M. Milakov, N. Gimelshein: Online normalizer calculation for softmax, 2018).
#include "engine/backends/cuda/module/language_kernels.h"
#include "engine/backends/cuda/module/packs.h"
#include "engine/math/scalar_math.h"

namespace tessera::device {
namespace {

// The hardware's: of its error of 2 units in the last place a sum keeps little.
__device__ float exponential_of(float x) { return exp2f(x * 1.44269504F); }

// sum * exp(most) is the sum of the exponentials so far.
struct OnlineSum {
  float most = -3.4e38F;
  float sum = 0;

  template <int n>
  __device__ void add(const Pack<float, n>& x) {
    float next = most;
    for (int k = 0; k < n; ++k) next = next > x.at[k] ? next : x.at[k];
    sum *= exponential_of(most - next);
    for (int k = 0; k < n; ++k) sum += exponential_of(x.at[k] - next);
    most = next;
  }
};

// A block has a row, and may overwrite it: every thread reads and writes its own elements. The
// second time it goes backwards: what was read last is still in the cache.
template <int n, class T>
__global__ void cross_entropy_kernel(StoredRows s, const float* logits, const std::int32_t* targets,
                                     float scale, T* gradient, float* losses) {
  const std::int64_t r = blockIdx.x;
  const float* const row = logits + r * s.stride;
  T* const to = gradient + r * s.stride;
  const std::int32_t target = targets[r];
  if (target < 0 || target >= s.width) {
    for (std::int64_t i = threadIdx.x; i < s.width; i += threads) store(to[i], 0.0F);
    if (threadIdx.x == 0) losses[r] = target < 0 ? 0.0F : std::bit_cast<float>(0x7FC00000U);
    return;
  }
  const auto width = static_cast<std::int32_t>(s.width);
  const std::int32_t first = static_cast<std::int32_t>(threadIdx.x) * n;
  const std::int32_t whole = width / n * n;
  const std::int32_t last = whole + static_cast<std::int32_t>(threadIdx.x);  // of a cut pack
  constexpr std::int32_t step = threads * n;
  OnlineSum own;
#pragma unroll 4
  for (std::int32_t i = first; i < whole; i += step) own.add(load_pack<float, n>(row + i));
  if (last < width) own.add(load_pack<float, 1>(row + last));
  const float most = block_largest(own.most);
  const float sum = block_sum(own.sum * exponential_of(own.most - most));
  const float factor = scale / sum;
  if (threadIdx.x == 0) losses[r] = kernels::logarithm(sum) - (row[target] - most);
  __syncthreads();
  if (last < width) {
    store(to[last], exponential_of(row[last] - most) * factor - (last == target ? scale : 0.0F));
  }
  const std::int32_t turns = first < whole ? (whole - first - 1) / step : -1;
#pragma unroll 4
  for (std::int32_t i = first + turns * step; i >= first; i -= step) {
    const auto x = load_pack<float, n>(row + i);
    Pack<T, n> out;
    for (int k = 0; k < n; ++k) {
      store(out.at[k], exponential_of(x.at[k] - most) * factor - (i + k == target ? scale : 0.0F));
    }
    store_pack(to + i, out);
  }
}

// So many fit into an SM of Hopper that they keep the memory busy, and no more than that about half
// of their rows is in the cache when they are read again.
constexpr std::size_t shared_for_cache = 48 << 10;

}  // namespace

int cross_entropy(const StoredRows& rows, const float* logits, const std::int32_t* targets,
                  float scale, Array gradient, float* losses, CudaStream stream) {
  return typed_launch(gradient.dtype, [&]<class T>(T*) {
    constexpr int n = widest_pack<float>;
    const bool packs =
        rows.stride % n == 0 && is_aligned(logits, n) && is_aligned(gradient.as<T>(), n);
    return launch(packs ? cross_entropy_kernel<n, T> : cross_entropy_kernel<1, T>,
                  {dim3(static_cast<unsigned>(rows.count)), threads, shared_for_cache}, stream,
                  rows, logits, targets, scale, gradient.as<T>(), losses);
  });
}

}  // namespace tessera::device
