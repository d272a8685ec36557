// SPDX-License-Identifier: Apache-2.0
// The project's own kernels. Compiled without fused multiply-adds, with exact division and roots:
// the same bits as engine/numbers/host_kernels.cpp, but for sums, whose order is fixed, too.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <algorithm>

#include "engine/backends/cuda/module/device.h"
#include "engine/backends/cuda/module/language_kernels.h"
#include "engine/backends/cuda/module/tables.h"

namespace tessera {
namespace {

constexpr int threads = 256;
constexpr int blocks_max = 1 << 16;

int blocks_for(std::int64_t numel) {
  const std::int64_t blocks = (numel + threads - 1) / threads;
  return static_cast<int>(blocks < blocks_max ? blocks : blocks_max);
}

__device__ float load(const void* at, DType dtype, std::int64_t i) {
  switch (dtype) {
    case DType::float32: return static_cast<const float*>(at)[i];
    case DType::bfloat16: return __bfloat162float(static_cast<const __nv_bfloat16*>(at)[i]);
    case DType::float16: return __half2float(static_cast<const __half*>(at)[i]);
    case DType::int32: return static_cast<float>(static_cast<const int*>(at)[i]);
    default: return static_cast<float>(static_cast<const unsigned char*>(at)[i]);
  }
}

__device__ void store(void* at, DType dtype, std::int64_t i, float value) {
  switch (dtype) {
    case DType::float32: static_cast<float*>(at)[i] = value; break;
    case DType::bfloat16: static_cast<__nv_bfloat16*>(at)[i] = __float2bfloat16_rn(value); break;
    case DType::float16: static_cast<__half*>(at)[i] = __float2half_rn(value); break;
    case DType::int32: static_cast<int*>(at)[i] = static_cast<int>(value); break;
    default: static_cast<unsigned char*>(at)[i] = static_cast<unsigned char>(value);
  }
}

__device__ float load(const KernelArray& a, std::int64_t i) { return load(a.at, a.dtype, i); }
__device__ void store(const KernelArray& a, std::int64_t i, float value) {
  store(a.at, a.dtype, i, value);
}

__device__ std::int64_t first() {
  return static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
}
__device__ std::int64_t stride() { return static_cast<std::int64_t>(gridDim.x) * blockDim.x; }

__global__ void cast_kernel(void* to, const void* from, BlockCopy shape) {
  for (std::int64_t i = first(); i < shape.numel * shape.count; i += stride()) {
    const std::int64_t k = i / shape.numel;
    const std::int64_t j = i % shape.numel;
    const float x = load(from, shape.from_dtype, k * shape.from_pitch + j);
    store(to, shape.to_dtype, k * shape.to_pitch + j, x);
  }
}

__global__ void scale_kernel(KernelArray from, KernelArray to, float factor) {
  for (std::int64_t i = first(); i < to.numel; i += stride()) store(to, i, load(from, i) * factor);
}

__global__ void divide_kernel(KernelArray values, float divisor) {
  for (std::int64_t i = first(); i < values.numel; i += stride()) {
    store(values, i, load(values, i) / divisor);
  }
}

__global__ void add_kernel(KernelArray from, KernelArray into) {
  for (std::int64_t i = first(); i < into.numel; i += stride()) {
    store(into, i, load(into, i) + load(from, i));
  }
}

__global__ void unscale_kernel(KernelArray values, float factor, KernelArray found) {
  bool finite = true;
  for (std::int64_t i = first(); i < values.numel; i += stride()) {
    const float x = load(values, i);
    finite = finite && isfinite(x);
    store(values, i, x * factor);
  }
  if (!finite) store(found, 0, 1);  // all threads that come here write the same
}

__device__ unsigned code_of(float x, float scale) {
  return static_cast<unsigned>(scale > 0 ? static_cast<int>(rintf(x / scale)) : 0);
}

// One block of threads for one block of the format.
__global__ void quantize_kernel(BlockFormat format, KernelArray from, unsigned char* codes,
                                KernelArray scales) {
  __shared__ float largest[threads];
  const std::size_t begin = blockIdx.x * format.block;
  const std::size_t end = begin + format.block < format.row ? begin + format.block : format.row;
  float own = 0;
  for (std::size_t i = begin + threadIdx.x; i < end; i += threads) {
    own = fmaxf(own, fabsf(load(from, static_cast<std::int64_t>(i))));
  }
  largest[threadIdx.x] = own;
  __syncthreads();
  for (unsigned half = threads / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) {
      largest[threadIdx.x] = fmaxf(largest[threadIdx.x], largest[threadIdx.x + half]);
    }
    __syncthreads();
  }
  const float scale = largest[0] / (format.bits == 8 ? 127.0F : 7.0F);
  if (threadIdx.x == 0) store(scales, blockIdx.x, scale);
  const std::size_t step = format.bits == 8 ? 1 : 2;
  for (std::size_t i = begin + threadIdx.x * step; i < end; i += threads * step) {
    const unsigned low = code_of(load(from, static_cast<std::int64_t>(i)), scale);
    if (format.bits == 8) {
      codes[i] = static_cast<unsigned char>(low);
      continue;
    }
    const bool has_high = i + 1 < end;
    const unsigned high =
        has_high ? code_of(load(from, static_cast<std::int64_t>(i + 1)), scale) : 0;
    codes[i / 2] = static_cast<unsigned char>(((low + 8) & 15U) | (((high + 8) & 15U) << 4));
  }
}

__device__ float decode(const unsigned char* codes, int bits, std::size_t i) {
  if (bits == 8) return static_cast<float>(static_cast<signed char>(codes[i]));
  const unsigned both = codes[i / 2];
  return static_cast<float>(static_cast<int>(i % 2 == 0 ? both & 15U : both >> 4) - 8);
}

__global__ void dequantize_kernel(BlockFormat format, const unsigned char* codes,
                                  std::size_t all_rows, KernelArray scales, KernelArray to) {
  const std::size_t row_bytes = format.row * static_cast<std::size_t>(format.bits) / 8;
  const std::size_t blocks = (format.row + format.block - 1) / format.block;
  const std::size_t rows = static_cast<std::size_t>(to.numel) / format.row;
  for (std::int64_t i = first(); i < static_cast<std::int64_t>(rows * format.row); i += stride()) {
    const std::size_t column = static_cast<std::size_t>(i) % format.row;
    float sum = 0;
    for (std::size_t k = static_cast<std::size_t>(i) / format.row; k < all_rows; k += rows) {
      const std::size_t block = k * blocks + column / format.block;
      sum += load(scales, static_cast<std::int64_t>(block)) *
             decode(codes + k * row_bytes, format.bits, column);
    }
    store(to, i, sum);
  }
}

// Of numbers that other kernels do not know, which are few.
int cast_any(const BlockCast& cast, CudaStream stream) {
  const int grid = blocks_for(cast.shape.numel * cast.shape.count);
  return device::launch(cast_kernel, {dim3(grid)}, stream, cast.to, cast.from, cast.shape);
}
int cast_blocks(std::span<const BlockCast> casts, CudaStream stream) {
  const auto computed = [](const BlockCast& cast) {
    return kernels::is_computed(cast.shape.from_dtype) && kernels::is_computed(cast.shape.to_dtype);
  };
  if (std::all_of(casts.begin(), casts.end(), computed)) return device::cast_blocks(casts, stream);
  int code = 0;
  for (const BlockCast& cast : casts) {
    if (code == 0) code = cast_any(cast, stream);
  }
  return code;
}
int scale(KernelArray from, KernelArray to, float factor, CudaStream stream) {
  return device::launch(scale_kernel, {dim3(blocks_for(to.numel))}, stream, from, to, factor);
}
int divide(KernelArray values, float divisor, CudaStream stream) {
  return device::launch(divide_kernel, {dim3(blocks_for(values.numel))}, stream, values, divisor);
}
int add(KernelArray from, KernelArray into, CudaStream stream) {
  return device::launch(add_kernel, {dim3(blocks_for(into.numel))}, stream, from, into);
}
int unscale(KernelArray values, float factor, KernelArray found, CudaStream stream) {
  return device::launch(unscale_kernel, {dim3(blocks_for(values.numel))}, stream, values, factor,
                        found);
}
int quantize(const BlockFormat& format, KernelArray from, void* codes, KernelArray scales,
             CudaStream stream) {
  const auto blocks = static_cast<unsigned>((format.row + format.block - 1) / format.block);
  return device::launch(quantize_kernel, {dim3(blocks)}, stream, format, from,
                        static_cast<unsigned char*>(codes), scales);
}
int dequantize(const BlockFormat& format, KernelArray codes, KernelArray scales, KernelArray to,
               CudaStream stream) {
  const std::size_t row_bytes = format.row * static_cast<std::size_t>(format.bits) / 8;
  return device::launch(dequantize_kernel, {dim3(blocks_for(to.numel))}, stream, format,
                        static_cast<const unsigned char*>(codes.at),
                        static_cast<std::size_t>(codes.numel) / row_bytes, scales, to);
}

}  // namespace

KernelApi real_kernels() {
  return {cast_blocks,  scale,   divide,   add,        device::adam,      device::add_norm,
          device::clip, unscale, quantize, dequantize, device::block_sums};
}

}  // namespace tessera
