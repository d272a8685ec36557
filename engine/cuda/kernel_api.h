// SPDX-License-Identifier: Apache-2.0
// The project's own kernels, as a table: real ones in the module, their twins on the CPU in tests.
#pragma once

#include "engine/cuda/cuda_api.h"
#include "tessera/types.h"

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

struct KernelApi {
  /// Casts, halves to nearest even.
  int (*cast_blocks)(void* to, const void* from, const BlockCopy& shape, CudaStream stream);
};

}  // namespace tessera
