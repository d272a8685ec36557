// SPDX-License-Identifier: Apache-2.0
// Helpers of kernels: launching, types of elements, sums of a block of threads in a fixed order.
//
// The idea: nothing here or in the kernels is more than this header's functions and the language,
// so tests compile the same files for the CPU, where an emulator runs blocks of threads.
#pragma once

#include <cuda_runtime.h>

#include "engine/backends/cuda/cuda_api.h"
#include "engine/backends/cuda/module/first_launches.h"
#include "tessera/math_arrays.h"

namespace tessera::device {

using kernels::Array;
using kernels::BFloat16;
using kernels::ConstArray;
using kernels::Float16;
using kernels::load;
using kernels::store;
using kernels::with_type;

inline constexpr int warp_threads = 32;
inline constexpr int threads = 256;  // of a block, unless a kernel says otherwise
inline constexpr int warps = threads / warp_threads;

inline cudaStream_t native(CudaStream stream) { return reinterpret_cast<cudaStream_t>(stream); }

struct Grid {
  dim3 blocks;
  int threads = device::threads;
  std::size_t shared_bytes = 0;
};

/// CUDA refuses a grid without blocks, which has nothing to do.
inline bool is_empty(const dim3& blocks) { return blocks.x == 0 || blocks.y == 0 || blocks.z == 0; }

#ifdef __CUDACC__
/// The shared memory that a block of the current device can ask for: 227 KiB on Hopper, 99 KiB on
/// cards that run the code of Ampere. Devices of one machine are taken for equal.
inline std::size_t shared_bytes_max() {
  static const std::size_t most = [] {
    int device = 0;
    int bytes = 0;
    if (cudaGetDevice(&device) != cudaSuccess) return std::size_t{0};
    cudaDeviceGetAttribute(&bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
    return static_cast<std::size_t>(bytes);
  }();
  return most;
}

// An earlier error of this thread that nobody took would look like this kernel's.
template <class... Parameters, class... Arguments>
int launch(void (*kernel)(Parameters...), const Grid& grid, CudaStream stream,
           Arguments... arguments) {
  if (is_empty(grid.blocks)) return cudaSuccess;
  if (const int code = before_launch(reinterpret_cast<const void*>(kernel)); code != 0) return code;
  constexpr std::size_t named = 4 * 1024;       // at most: arrays that a kernel declares count, too
  if (grid.shared_bytes + named > 48 * 1024) {  // more than that has to be asked for
    const cudaError_t code = cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel),
                                                  cudaFuncAttributeMaxDynamicSharedMemorySize,
                                                  static_cast<int>(grid.shared_bytes));
    if (code != cudaSuccess) return code;
  }
  static_cast<void>(cudaGetLastError());
  kernel<<<grid.blocks, grid.threads, grid.shared_bytes, native(stream)>>>(arguments...);
  return cudaGetLastError();
}

/// 2^x by one instruction, within 2 units in the last place; below the normal numbers 0.
__device__ inline float power_of_two(float x) {
  float y = 0;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

__device__ inline unsigned char* shared_bytes() {
  extern __shared__ __align__(16) unsigned char bytes[];
  return bytes;
}
#else
template <class... Parameters, class... Arguments>
int launch(void (*kernel)(Parameters...), const Grid& grid, CudaStream, Arguments... arguments) {
  if (is_empty(grid.blocks)) return 0;
  return emulator::run(grid.blocks, grid.threads, grid.shared_bytes, [=] { kernel(arguments...); });
}

inline float power_of_two(float x) { return x < -126 ? 0 : exp2f(x); }
inline unsigned char* shared_bytes() { return emulator::shared_bytes(); }
inline std::size_t shared_bytes_max() { return emulator::shared_bytes_max(); }
#endif

/// Calls `launches` with a null pointer to the element type and returns its result.
template <class Launches>
int typed_launch(DType dtype, const Launches& launches) {
  int code = 0;
  with_type(dtype, [&](auto* type) { code = launches(type); });
  return code;
}

/// Blocks for one thread per element, and what a thread adds to come to its next one.
inline Grid elements(std::int64_t numel) {
  constexpr std::int64_t most = 1 << 16;
  const std::int64_t blocks = (numel + threads - 1) / threads;
  return {dim3(static_cast<unsigned>(blocks < most ? blocks : most))};
}
__device__ inline std::int64_t first_element() {
  return static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
}
__device__ inline std::int64_t element_stride() {
  return static_cast<std::int64_t>(gridDim.x) * blockDim.x;
}

/// The sum of all lanes of a warp, on each of them, always as the same tree.
__device__ inline float warp_sum(float x) {
  for (int apart = warp_threads / 2; apart > 0; apart /= 2) {
    x += __shfl_xor_sync(0xFFFFFFFFU, x, apart);
  }
  return x;
}
__device__ inline float warp_largest(float x) {
  for (int apart = warp_threads / 2; apart > 0; apart /= 2) {
    const float other = __shfl_xor_sync(0xFFFFFFFFU, x, apart);
    x = x > other ? x : other;
  }
  return x;
}

/// The sum over all threads of a block of `threads`, which each of them gets.
__device__ inline float block_sum(float x) {
  __shared__ float parts[warps];
  x = warp_sum(x);
  __syncthreads();  // all threads have read the last sum
  if (threadIdx.x % warp_threads == 0) parts[threadIdx.x / warp_threads] = x;
  __syncthreads();
  float sum = 0;
  for (int k = 0; k < warps; ++k) sum += parts[k];
  return sum;
}
__device__ inline float block_largest(float x) {
  __shared__ float parts[warps];
  x = warp_largest(x);
  __syncthreads();
  if (threadIdx.x % warp_threads == 0) parts[threadIdx.x / warp_threads] = x;
  __syncthreads();
  float most = parts[0];
  for (int k = 1; k < warps; ++k) most = most > parts[k] ? most : parts[k];
  return most;
}

}  // namespace tessera::device
