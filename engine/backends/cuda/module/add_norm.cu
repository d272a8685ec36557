// SPDX-License-Identifier: Apache-2.0
// KernelApi::add_norm: an array is added by some blocks of threads, whose sums another kernel adds.
// How many follows from its size alone: the same bits on every GPU, and beside whatever other
// array.
#include "engine/backends/cuda/module/batch.h"
#include "engine/backends/cuda/module/language_kernels.h"

namespace tessera::device {
namespace {

constexpr int parts_max = 256;
static_assert(parts_max <= threads && parts_max * sizeof(double) <= norm_workspace_bytes);

// NaN stays, unlike with fmax.
__device__ double larger(double a, double b) { return a != a || a >= b ? a : b; }

__device__ double either(double a, double b, bool largest) {
  return largest ? larger(a, b) : a + b;
}

// Of all threads of a block, always as the same tree; the first one gets it.
__device__ double combine(double own, bool largest) {
  __shared__ double parts[threads];
  __syncthreads();  // the first one has read the last sum
  parts[threadIdx.x] = own;
  __syncthreads();
  for (unsigned half = threads / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) {
      parts[threadIdx.x] = either(parts[threadIdx.x], parts[threadIdx.x + half], largest);
    }
    __syncthreads();
  }
  return parts[0];
}

__device__ void add_to(float* one, double all, bool largest) {
  *one = static_cast<float>(either(*one, all, largest));
}

template <class T>
struct NormItem {
  const T* values;
  std::int64_t numel;
  unsigned blocks;
  bool packs;
};

template <int n, class T>
__device__ double sum_part(const NormItem<T>& item, unsigned block, Norm norm) {
  double own = 0;
  const std::int64_t first = static_cast<std::int64_t>(block) * threads + threadIdx.x;
  const std::int64_t stride = static_cast<std::int64_t>(item.blocks) * threads;
#pragma unroll 4
  for (std::int64_t i = first * n; i < item.numel; i += stride * n) {
    const auto in = load_pack<T, n>(item.values + i);
    for (int k = 0; k < n; ++k) {
      const float x = load(in.at[k]);
      own = either(own, norm == Norm::l2 ? x * x : fabsf(x), norm == Norm::largest);
    }
  }
  return own;
}

template <class T>
__global__ void parts_kernel(Norm norm, double* parts, float* one,
                             const __grid_constant__ Batch<NormItem<T>> batch) {
  const bool largest = norm == Norm::largest;
  const int k = batch.own();
  const NormItem<T>& item = batch.items[k];
  const unsigned block = blockIdx.x - batch.begins[k];
  const double own =
      item.packs ? sum_part<widest_pack<T>>(item, block, norm) : sum_part<1>(item, block, norm);
  const double all = combine(own, largest);
  if (threadIdx.x != 0) return;
  if (gridDim.x == 1) {
    add_to(one, all, largest);
  } else {
    parts[blockIdx.x] = all;
  }
}

// Array by array, each of which is rounded as if it were alone.
template <class T>
__global__ void total_kernel(Norm norm, const double* parts, float* one,
                             const __grid_constant__ Batch<NormItem<T>> batch) {
  const bool largest = norm == Norm::largest;
  for (int k = 0; k < batch.count; ++k) {
    const bool exists = threadIdx.x < batch.items[k].blocks;
    const double all = combine(exists ? parts[batch.begins[k] + threadIdx.x] : 0, largest);
    if (threadIdx.x == 0) add_to(one, all, largest);
  }
}

template <class T>
NormItem<T> item_of(const KernelArray& array) {
  constexpr std::int64_t turns = 4;  // of a thread, or more
  constexpr int n = widest_pack<T>;
  const auto* const values = static_cast<const T*>(array.at);
  const bool packs = array.numel % n == 0 && is_aligned(values, n);
  const std::int64_t each = threads * turns * (packs ? n : 1);
  const std::int64_t wanted = (array.numel + each - 1) / each;
  const auto blocks = static_cast<unsigned>(wanted < parts_max ? wanted : parts_max);
  return {values, array.numel, blocks, packs};
}

}  // namespace

int add_norm(Norm norm, std::span<const KernelArray> values, float* one, void* workspace,
             CudaStream stream) {
  auto* const parts = static_cast<double*>(workspace);
  const auto same = [](const KernelArray& a, const KernelArray& b) { return a.dtype == b.dtype; };
  return for_runs(values, same, [&](std::span<const KernelArray> run) {
    return typed_launch(run[0].dtype, [&]<class T>(T*) {
      const auto start = [&](const Batch<NormItem<T>>& batch, unsigned blocks) {
        const int code = launch(parts_kernel<T>, {dim3(blocks)}, stream, norm, parts, one, batch);
        if (code != 0 || blocks == 1) return code;
        return launch(total_kernel<T>, {dim3(1)}, stream, norm, parts, one, batch);
      };
      Batcher<NormItem<T>> batcher(start, norm_workspace_bytes / sizeof(double));
      for (const KernelArray& array : run) {
        const NormItem<T> item = item_of<T>(array);
        batcher.add(item, item.blocks);
      }
      return batcher.flush();
    });
  });
}

}  // namespace tessera::device
