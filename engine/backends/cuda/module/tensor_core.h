// SPDX-License-Identifier: Apache-2.0
// Products of 16 x 16 by 16 x 8 numbers of two bytes by a warp, and how its lanes get the operands
// from shared memory (PTX ISA, "Matrix Fragments for mma.m16n8k16" and "ldmatrix").
//
// Lane 4 g + t holds of A: rows g and g + 8, columns 2 t, 2 t + 1 and the same + 8; of B: those
// rows of column g; of C: columns 2 t, 2 t + 1 of rows g and g + 8.
#pragma once

#include "engine/backends/cuda/module/device.h"

namespace tessera::device {

/// Two numbers as T, the first in the lower half.
template <class T>
__device__ inline unsigned pack(float low, float high) {
#ifdef __CUDA_ARCH__  // one instruction for both
  unsigned both = 0;
  if constexpr (std::is_same_v<T, BFloat16>) {
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
  } else {
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
  }
  return both;
#else
  T a;
  T b;
  store(a, low);
  store(b, high);
  return a.bits | static_cast<unsigned>(b.bits) << 16;
#endif
}

#ifdef __CUDACC__
/// c += a b, whose numbers are T.
template <class T>
__device__ inline void multiply_add(float (&c)[4], const unsigned (&a)[4], unsigned b0,
                                    unsigned b1) {
  if constexpr (std::is_same_v<T, BFloat16>) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  } else {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  }
}

/// Four 8 x 8 matrices, whose rows begin at the addresses of lanes 0-7, 8-15, 16-23 and 24-31: of
/// each this lane's pair, as rows or, `transposed`, as columns.
__device__ inline void load_matrices(unsigned (&r)[4], const void* row, bool transposed) {
  const auto at = static_cast<unsigned>(__cvta_generic_to_shared(row));
  if (transposed) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(at)
                 : "memory");
  } else {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(at)
                 : "memory");
  }
}

/// 16 bytes to shared memory, or zeros if `exists` is not; when, nobody knows before
/// wait_for_copies. Copies of a thread up to end_copies are a group (PTX ISA, "cp.async").
__device__ inline void copy_later(void* to, const void* from, bool exists) {
  const auto at = static_cast<unsigned>(__cvta_generic_to_shared(to));
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
               :
               : "r"(at), "l"(from), "r"(exists ? 16 : 0)
               : "memory");
}
__device__ inline void end_copies() { asm volatile("cp.async.commit_group;" : : : "memory"); }
/// For this thread's groups, but for the youngest `left`.
template <int left>
__device__ inline void wait_for_copies() {
  asm volatile("cp.async.wait_group %0;" : : "n"(left) : "memory");
}
#else
using emulator::copy_later;
using emulator::end_copies;
using emulator::load_matrices;
using emulator::multiply_add;
using emulator::wait_for_copies;
#endif

/// 64 rows of a head in shared memory. Rows are 16 bytes longer than they need to be: then those of
/// one 8 x 8 matrix lie in different banks.
template <class T, int D>
struct Tile {
  static constexpr int rows = 64;
  static constexpr int stride = D + 8;
  static constexpr int numbers = rows * stride;
  static constexpr std::size_t bytes = sizeof(T) * numbers;

  T* at;

  /// Copies the tile; `from` has `count` rows of `width`, and all other elements become zero. All
  /// threads call it; the copy is over later, see copy_later.
  __device__ void load(const T* from, std::int64_t row_stride, std::int64_t count,
                       std::int64_t width) const {
    constexpr int per_row = D / 8;
    for (int i = static_cast<int>(threadIdx.x); i < rows * per_row;
         i += static_cast<int>(blockDim.x)) {
      const int r = i / per_row;
      const int c = i % per_row * 8;
      const bool exists = r < count && c < width;
      copy_later(at + r * stride + c, exists ? from + r * row_stride + c : from, exists);
    }
  }

  /// 16 x 16 from (row, column) on, as A; or as B of 16 rows, for columns from `column` on.
  __device__ void block(unsigned (&r)[4], int row, int column, bool transposed) const {
    const int lane = static_cast<int>(threadIdx.x % warp_threads);
    load_matrices(r, at + (row + lane % 16) * stride + column + lane / 16 * 8, transposed);
  }
  /// The transpose as B: 16 rows from `column` on, for columns from `row` on.
  __device__ void transposed_block(unsigned (&r)[4], int row, int column) const {
    const int lane = static_cast<int>(threadIdx.x % warp_threads);
    load_matrices(r, at + (row + lane % 8 + lane / 16 * 8) * stride + column + lane / 8 % 2 * 8,
                  false);
  }
};

/// Pairs of tiles: while one is in use, the next is on its way.
template <class T, int D>
struct TilePairs {
  static constexpr int tiles = 4;

  T* at;

  __device__ Tile<T, D> first(std::int64_t pair) const {
    return {at + pair % 2 * 2 * Tile<T, D>::numbers};
  }
  __device__ Tile<T, D> second(std::int64_t pair) const {
    return {first(pair).at + Tile<T, D>::numbers};
  }
};

/// G times 16 rows of a tile as A, from shared memory whenever they are needed.
template <class T, int D>
struct SharedRows {
  Tile<T, D> tile;
  int row;

  __device__ void get(unsigned (&r)[4], int g, int k) const {
    tile.block(r, row + 16 * g, 16 * k, false);
  }
};

/// The same, kept in registers.
template <class T, int D, int G>
struct KeptRows {
  unsigned at[G][D / 16][4];

  __device__ void load(const SharedRows<T, D>& rows) {
#pragma unroll
    for (int g = 0; g < G; ++g) {
#pragma unroll
      for (int k = 0; k < D / 16; ++k) rows.get(at[g][k], g, k);
    }
  }
  __device__ void get(unsigned (&r)[4], int g, int k) const {
#pragma unroll
    for (int i = 0; i < 4; ++i) r[i] = at[g][k][i];
  }
};

/// c += the rows `a` times the transpose of N rows of b from `first` on: G times 16 x N. What is
/// loaded of b serves all rows of a.
template <class A, class T, int D, int G, int N>
__device__ void multiply_transposed(float (&c)[G][N][4], const A& a, const Tile<T, D>& b,
                                    int first) {
#pragma unroll
  for (int k = 0; k < D / 16; ++k) {
    unsigned left[G][4];
#pragma unroll
    for (int g = 0; g < G; ++g) a.get(left[g], g, k);
#pragma unroll
    for (int n = 0; n < N; n += 2) {
      unsigned right[4];
      b.transposed_block(right, first + n * 8, 16 * k);
#pragma unroll
      for (int g = 0; g < G; ++g) {
        multiply_add<T>(c[g][n], left[g], right[0], right[1]);
        multiply_add<T>(c[g][n + 1], left[g], right[2], right[3]);
      }
    }
  }
}

/// c += p times N rows of b from `first` on, where p is as multiply_transposed leaves it: G times
/// 16 x D.
template <class T, int D, int G, int N>
__device__ void multiply(float (&c)[G][D / 8][4], const float (&p)[G][N][4], const Tile<T, D>& b,
                         int first) {
#pragma unroll
  for (int k = 0; k < N / 2; ++k) {
    unsigned left[G][4];
#pragma unroll
    for (int g = 0; g < G; ++g) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        left[g][i] = pack<T>(p[g][2 * k + i / 2][i % 2 * 2], p[g][2 * k + i / 2][i % 2 * 2 + 1]);
      }
    }
#pragma unroll
    for (int n = 0; n < D / 8; n += 2) {
      unsigned right[4];
      b.block(right, first + k * 16, n * 8, true);
#pragma unroll
      for (int g = 0; g < G; ++g) {
        multiply_add<T>(c[g][n], left[g], right[0], right[1]);
        multiply_add<T>(c[g][n + 1], left[g], right[2], right[3]);
      }
    }
  }
}

/// This lane's part of 16 x D numbers to rows `row` + g and `row` + g + 8, times a factor each.
template <int D, class T>
__device__ void store_rows(const float (&c)[D / 8][4], const float (&factor)[2], T* to,
                           std::int64_t row_stride, int row, std::int64_t count,
                           std::int64_t width) {
  const int lane = static_cast<int>(threadIdx.x % warp_threads);
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int r = row + lane / 4 + 8 * half;
    if (r >= count) continue;
#pragma unroll
    for (int n = 0; n < D / 8; ++n) {
      const int column = n * 8 + lane % 4 * 2;
      if (column >= width) continue;
      const unsigned both =
          pack<T>(c[n][2 * half] * factor[half], c[n][2 * half + 1] * factor[half]);
      *reinterpret_cast<unsigned*>(to + r * row_stride + column) = both;
    }
  }
}

}  // namespace tessera::device
