// SPDX-License-Identifier: Apache-2.0
#include "engine/backends/cuda/module/column_parts.h"
#include "engine/backends/cuda/module/language_kernels.h"

namespace tessera::device {
namespace {

// A warp reads neighbours of a row, a pack a thread; the warps of a block share the rows of a part.
template <int n, class T>
__global__ void column_sums_kernel(const T* from, std::int64_t rows, std::int64_t width,
                                   std::int64_t part_rows, float* sums) {
  constexpr int strip = warp_threads * n;
  __shared__ float found[warps][strip];
  const unsigned lane = threadIdx.x % warp_threads;
  const unsigned warp = threadIdx.x / warp_threads;
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * strip;
  const std::int64_t begin = static_cast<std::int64_t>(blockIdx.y) * part_rows;
  const std::int64_t end = begin + part_rows < rows ? begin + part_rows : rows;
  const std::int64_t c = first + lane * n;
  float sum[n] = {};
  if (c < width) {
#pragma unroll 4
    for (std::int64_t r = begin + warp; r < end; r += warps) {
      const auto row = load_pack<T, n>(from + r * width + c);
      for (int k = 0; k < n; ++k) sum[k] += load(row.at[k]);
    }
  }
  for (int k = 0; k < n; ++k) found[warp][lane * n + k] = sum[k];
  add_warps(found, width - first, sums + blockIdx.y * width + first);
}

__global__ void add_parts_kernel(const float* parts, std::int64_t count, std::int64_t width,
                                 float* sums) {
  __shared__ float found[warps][warp_threads];
  const unsigned lane = threadIdx.x % warp_threads;
  const unsigned warp = threadIdx.x / warp_threads;
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * warp_threads;
  const std::int64_t c = first + lane;
  float sum = 0;
  if (c < width) {
#pragma unroll 8
    for (std::int64_t k = warp; k < count; k += warps) sum += parts[k * width + c];
  }
  found[warp][lane] = sum;
  add_warps(found, width - first, sums + first);
}

unsigned strips(std::int64_t width, std::int64_t strip) {
  return static_cast<unsigned>((width + strip - 1) / strip);
}

}  // namespace

int add_parts(const float* parts, std::int64_t count, std::int64_t width, float* sums,
              CudaStream stream) {
  return launch(add_parts_kernel, {dim3(strips(width, warp_threads))}, stream, parts, count, width,
                sums);
}

int column_sums(ConstArray from, std::int64_t rows, std::int64_t width, float* sums, void* scratch,
                CudaStream stream) {
  const ColumnParts parts = ColumnParts::of(rows, width);
  float* const to = parts.count == 1 ? sums : static_cast<float*>(scratch);
  const int code = typed_launch(from.dtype, [&]<class T>(T*) {
    constexpr int n = widest_pack<T>;
    const bool packs = width % n == 0 && is_aligned(from.as<T>(), n);
    const auto count = static_cast<unsigned>(parts.count);
    return launch(packs ? column_sums_kernel<n, T> : column_sums_kernel<1, T>,
                  {dim3(strips(width, warp_threads * (packs ? n : 1)), count)}, stream,
                  from.as<T>(), rows, width, parts.rows, to);
  });
  if (code != 0 || parts.count == 1) return code;
  return add_parts(to, parts.count, width, sums, stream);
}

}  // namespace tessera::device
