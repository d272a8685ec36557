// SPDX-License-Identifier: Apache-2.0
#include "engine/backends/cuda/module/column_parts.h"
#include "engine/backends/cuda/module/language_kernels.h"

namespace tessera::device {
namespace {

// What is added: numbers of an array, or of one that is written meanwhile.
template <class T>
struct Stored {
  using Type = T;
  const T* from;

  template <int n>
  __device__ Pack<T, n> take(std::int64_t at) const {
    return load_pack<T, n>(from + at);
  }
  bool is_aligned(int n) const { return device::is_aligned(from, n); }
};

template <class From, class T>
struct Converted {
  using Type = T;
  const From* from;
  T* to;

  template <int n>
  __device__ Pack<T, n> take(std::int64_t at) const {
    const auto in = load_pack<From, n>(from + at);
    Pack<T, n> out;
    for (int k = 0; k < n; ++k) store(out.at[k], load(in.at[k]));
    store_pack(to + at, out);
    return out;
  }
  bool is_aligned(int n) const { return device::is_aligned(from, n) && device::is_aligned(to, n); }
};

template <class T>
struct Multiplied {
  using Type = T;
  const T *a, *b;
  T* to;

  template <int n>
  __device__ Pack<T, n> take(std::int64_t at) const {
    auto product = load_pack<T, n>(a + at);
    const auto factor = load_pack<T, n>(b + at);
    for (int k = 0; k < n; ++k) store(product.at[k], load(product.at[k]) * load(factor.at[k]));
    store_pack(to + at, product);
    return product;
  }
  bool is_aligned(int n) const {
    return device::is_aligned(a, n) && device::is_aligned(b, n) && device::is_aligned(to, n);
  }
};

// A warp takes neighbours of a row, a pack a thread; the warps of a block share the rows of a part.
template <int n, class Numbers>
__global__ void column_sums_kernel(Numbers numbers, std::int64_t rows, std::int64_t width,
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
      const auto row = numbers.template take<n>(r * width + c);
      for (int k = 0; k < n; ++k) sum[k] += load(row.at[k]);
    }
  }
  for (int k = 0; k < n; ++k) found[warp][lane * n + k] = sum[k];
  add_warps(found, width - first, sums + blockIdx.y * width + first);
}

// A row of blocks for each array.
template <class T>
__global__ void add_parts_kernel(FoundSums parts, T* of_first, T* of_second) {
  __shared__ float found[warps][warp_threads];
  __shared__ float sums[warp_threads];
  T* const to = blockIdx.y == 0 ? of_first : of_second;
  const float* const from = parts.at + blockIdx.y * parts.width;
  const unsigned lane = threadIdx.x % warp_threads;
  const unsigned warp = threadIdx.x / warp_threads;
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * warp_threads;
  const std::int64_t c = first + lane;
  float sum = 0;
  if (c < parts.width) {
#pragma unroll 8
    for (std::int64_t k = warp; k < parts.count; k += warps) sum += from[k * parts.pitch + c];
  }
  found[warp][lane] = sum;
  add_warps(found, parts.width - first, sums);
  if (warp == 0 && c < parts.width) store(to[c], load(to[c]) + sums[lane]);
}

unsigned strips(std::int64_t width, std::int64_t strip) {
  return static_cast<unsigned>((width + strip - 1) / strip);
}

template <class Numbers>
int sum_columns(const Numbers& numbers, std::int64_t rows, std::int64_t width,
                const ColumnGradient& to, CudaStream stream) {
  constexpr int n = widest_pack<typename Numbers::Type>;
  const ColumnParts parts = ColumnParts::of(rows, width);
  const bool packs = width % n == 0 && numbers.is_aligned(n);
  const dim3 blocks(strips(width, warp_threads * (packs ? n : 1)),
                    static_cast<unsigned>(parts.count));
  auto* const found = static_cast<float*>(to.scratch);
  const int code = launch(packs ? column_sums_kernel<n, Numbers> : column_sums_kernel<1, Numbers>,
                          {blocks}, stream, numbers, rows, width, parts.rows, found);
  if (code != 0) return code;
  return add_parts({found, parts.count, width, width}, to.gradient, stream);
}

}  // namespace

int add_parts(const FoundSums& parts, Array to, CudaStream stream) {
  if (to.data == nullptr) return 0;
  return typed_launch(to.dtype, [&]<class T>(T*) {
    return launch(add_parts_kernel<T>, {dim3(strips(parts.width, warp_threads))}, stream, parts,
                  to.as<T>(), to.as<T>());
  });
}

int add_parts(const FoundSums& parts, Array first, Array second, CudaStream stream) {
  if (first.data == nullptr || second.data == nullptr || first.dtype != second.dtype) {
    const int code = add_parts(parts, first, stream);
    return code != 0 ? code : add_parts(parts.from(parts.width), second, stream);
  }
  return typed_launch(first.dtype, [&]<class T>(T*) {
    return launch(add_parts_kernel<T>, {dim3(strips(parts.width, warp_threads), 2)}, stream, parts,
                  first.as<T>(), second.as<T>());
  });
}

int add_column_sums(ConstArray from, std::int64_t rows, std::int64_t width,
                    const ColumnGradient& to, CudaStream stream) {
  if (to.gradient.data == nullptr) return 0;
  return typed_launch(from.dtype, [&]<class T>(T*) {
    return sum_columns(Stored<T>{from.as<T>()}, rows, width, to, stream);
  });
}

int convert_rows(ConstArray from, Array to, std::int64_t rows, std::int64_t width,
                 const ColumnGradient& sums, CudaStream stream) {
  if (sums.gradient.data == nullptr) return convert(from, to, rows * width, stream);
  return typed_launch(from.dtype, [&]<class From>(From*) {
    return typed_launch(to.dtype, [&]<class T>(T*) {
      return sum_columns(Converted<From, T>{from.as<From>(), to.as<T>()}, rows, width, sums,
                         stream);
    });
  });
}

int multiply_rows(ConstArray a, ConstArray b, Array to, std::int64_t rows, std::int64_t width,
                  const ColumnGradient& sums, CudaStream stream) {
  if (sums.gradient.data == nullptr) return multiply(a, b, to, rows * width, stream);
  return typed_launch(to.dtype, [&]<class T>(T*) {
    return sum_columns(Multiplied<T>{a.as<T>(), b.as<T>(), to.as<T>()}, rows, width, sums, stream);
  });
}

}  // namespace tessera::device
