// SPDX-License-Identifier: Apache-2.0
// KernelApi::add_norm: few numbers are added by one block of threads, more by many, whose sums
// another kernel adds. How many follows from the sizes alone: the same bits on every GPU.
#include "engine/backends/cuda/module/language_kernels.h"
#include "engine/backends/cuda/module/packs.h"

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

template <int n, class T>
__global__ void parts_kernel(Norm norm, const T* values, std::int64_t numel, double* parts,
                             float* one) {
  const bool largest = norm == Norm::largest;
  double own = 0;
#pragma unroll 4
  for (std::int64_t i = first_element() * n; i < numel; i += element_stride() * n) {
    const auto in = load_pack<T, n>(values + i);
    for (int k = 0; k < n; ++k) {
      const float x = load(in.at[k]);
      own = either(own, norm == Norm::l2 ? x * x : fabsf(x), largest);
    }
  }
  const double all = combine(own, largest);
  if (threadIdx.x != 0) return;
  if (gridDim.x == 1) {
    add_to(one, all, largest);
  } else {
    parts[blockIdx.x] = all;
  }
}

__global__ void total_kernel(Norm norm, const double* parts, unsigned count, float* one) {
  const bool largest = norm == Norm::largest;
  const double all = combine(threadIdx.x < count ? parts[threadIdx.x] : 0, largest);
  if (threadIdx.x == 0) add_to(one, all, largest);
}

}  // namespace

int add_norm(Norm norm, ConstArray values, std::int64_t numel, float* one, void* workspace,
             CudaStream stream) {
  auto* const parts = static_cast<double*>(workspace);
  constexpr std::int64_t turns = 4;  // of a thread, or more
  unsigned blocks = 1;
  const int code = typed_launch(values.dtype, [&]<class T>(T*) {
    constexpr int n = widest_pack<T>;
    const bool packs = numel % n == 0 && is_aligned(values.as<T>(), n);
    const std::int64_t each = threads * turns * (packs ? n : 1);
    const std::int64_t wanted = (numel + each - 1) / each;
    blocks = static_cast<unsigned>(wanted < parts_max ? wanted : parts_max);
    return launch(packs ? parts_kernel<n, T> : parts_kernel<1, T>, {dim3(blocks)}, stream, norm,
                  values.as<T>(), numel, parts, one);
  });
  if (code != 0 || blocks == 1) return code;
  return launch(total_kernel, {dim3(1)}, stream, norm, parts, blocks, one);
}

}  // namespace tessera::device
