// SPDX-License-Identifier: Apache-2.0
// What attention's kernels for Hopper share: who does what in a block, which tile comes when, and
// how tiles come.
#pragma once

#include "engine/backends/cuda/module/attention_tiles.h"
#include "engine/backends/cuda/module/hopper.h"

namespace tessera::device {

inline constexpr int consumers = 2;  // groups of warps that multiply; one more fetches
inline constexpr int consumer_threads = group_threads * consumers;
inline constexpr int hopper_block = group_threads + consumer_threads;
inline constexpr int stages = 2;  // tiles that there is room for, of what comes again and again

// The number of a tile in the order in which they come: where it lies, and how often that place has
// been used before, modulo 2.
struct Turn {
  int stage;
  unsigned phase;

  __device__ explicit Turn(int number)
      : stage(number % stages), phase(static_cast<unsigned>(number / stages % 2)) {}
};

// Which rows come, of which a map has `rows` in a box.
struct TileRows {
  int head, token, sequence;
};

// Tiles of D columns lie as matrices of 64 columns, one behind another.
template <int D>
__device__ inline void load_tile(unsigned char* to, const TensorMap& map, int rows,
                                 Barrier* barrier, const TileRows& from) {
  for (int c = 0; c < D / swizzle_columns; ++c) {
    load_box(to + c * rows * 128, map, barrier, c * swizzle_columns, from.head, from.token,
             from.sequence);
  }
}

// The same number, of which the compiler now knows that all lanes have it.
__device__ inline int same_in_warp(int number) {
#ifdef __CUDA_ARCH__
  return __shfl_sync(0xFFFFFFFFU, number, 0);
#else
  return number;
#endif
}

// What a warp has read may be overwritten.
__device__ inline void free_tile(Barrier* barrier) {
  if (threadIdx.x % warp_threads == 0) arrive(barrier);
}

// Numbers as products leave them, rounded: what the next product reads of them.
template <class T, int N>
__device__ inline void round_pairs(unsigned (&to)[N / 2][4], const float (&p)[N][4]) {
#pragma unroll
  for (int k = 0; k < N / 2; ++k) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      to[k][i] = pack<T>(p[2 * k + i / 2][i % 2 * 2], p[2 * k + i / 2][i % 2 * 2 + 1]);
    }
  }
}

// Where shared memory of the block begins that products can read.
__device__ inline unsigned char* swizzled_memory() {
  unsigned char* const given = shared_bytes();
  return given + (swizzle_bytes - shared_address(given) % swizzle_bytes) % swizzle_bytes;
}

inline HeadBoxes boxes_of(const AttentionShape& s, const void* at, std::int64_t heads,
                          std::int64_t stride, int rows) {
  return {at, s.head_dim, heads, s.length, s.batch, stride, rows, s.dtype == DType::bfloat16};
}

}  // namespace tessera::device
