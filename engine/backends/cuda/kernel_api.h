// SPDX-License-Identifier: Apache-2.0
// The project's own kernels, as a table: real ones in the module, their twins on the CPU in tests.
//
// They compute as tessera/kernels.h defines, in its order and without fused multiply-adds, so they
// give the same bits as the CPU, except for sums.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "engine/backends/cuda/cuda_api.h"
#include "tessera/kernels.h"

namespace tessera {

/// `count` blocks of `numel` elements; neighbours lie a pitch apart, in elements.
struct BlockCopy {
  DType from_dtype = DType::float32;
  DType to_dtype = DType::float32;
  std::int64_t numel = 0;
  std::int64_t count = 1;
  std::int64_t from_pitch = 0;
  std::int64_t to_pitch = 0;
};

/// Elements in memory that the device reaches.
struct KernelArray {
  void* at = nullptr;
  std::int64_t numel = 0;
  DType dtype = DType::float32;
};

struct BlockCast {
  void* to = nullptr;
  const void* from = nullptr;
  BlockCopy shape;
};

/// What Kernels::adam updates; all have one dtype but the gradient.
struct AdamArrays {
  AdamNumbers numbers;
  KernelArray gradient, values, exp_avg, exp_avg_sq;
};

/// The workspace of `add_norm` in bytes; launches of one stream may share it.
inline constexpr std::size_t norm_workspace_bytes = 32 << 10;

struct KernelApi {
  // Arrays of a span do not overlap: they may become one launch.

  /// Casts, halves to nearest even.
  int (*cast_blocks)(std::span<const BlockCast> casts, CudaStream stream);

  int (*scale)(KernelArray from, KernelArray to, float factor, CudaStream stream);
  int (*divide)(KernelArray values, float divisor, CudaStream stream);
  int (*add)(KernelArray from, KernelArray into, CudaStream stream);
  int (*adam)(std::span<const AdamArrays> arrays, CudaStream stream);
  /// Adds one array after another.
  int (*add_norm)(Norm norm, std::span<const KernelArray> values, float* one, void* workspace,
                  CudaStream stream);
  int (*clip)(Norm norm, const float* sum, float max_norm, std::span<const KernelArray> values,
              CudaStream stream);
  int (*unscale)(KernelArray values, float factor, KernelArray found, CudaStream stream);
  /// One row. REQUIRES: 4 bits: an even block.
  int (*quantize)(const BlockFormat& format, KernelArray from, void* codes, KernelArray scales,
                  CudaStream stream);
  int (*dequantize)(const BlockFormat& format, KernelArray codes, KernelArray scales,
                    KernelArray to, CudaStream stream);
  /// Writes the block_sum of each `block` bytes to `sums`, in pinned memory.
  int (*block_sums)(const void* data, std::size_t bytes, std::size_t block, std::uint64_t* sums,
                    CudaStream stream);
};

}  // namespace tessera
