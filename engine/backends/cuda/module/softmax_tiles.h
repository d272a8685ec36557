// SPDX-License-Identifier: Apache-2.0
// The softmax of attention by tiles: scores of 16 rows and 8 N columns, as tensor cores leave them
// to a warp, become weights that are relative to the largest score so far.
#pragma once

#include "engine/backends/cuda/module/attention_tiles.h"

namespace tessera::device {

// Of the four lanes that share a row.
__device__ inline float row_sum(float x) {
  x += __shfl_xor_sync(0xFFFFFFFFU, x, 1);
  return x + __shfl_xor_sync(0xFFFFFFFFU, x, 2);
}
__device__ inline float row_largest(float x) {
  x = fmaxf(x, __shfl_xor_sync(0xFFFFFFFFU, x, 1));
  return fmaxf(x, __shfl_xor_sync(0xFFFFFFFFU, x, 2));
}

template <int N>
struct Softmax {
  float most[2] = {lowest, lowest};
  float sum[2] = {0, 0};  // of this lane's columns

  // Returns in `shrink` by how much what was summed before counts less.
  __device__ void take(float (&p)[N][4], float (&shrink)[2], float scale) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float larger = most[half];
#pragma unroll
      for (int n = 0; n < N; ++n) {
        larger = fmaxf(larger, fmaxf(p[n][2 * half], p[n][2 * half + 1]));
      }
      larger = row_largest(larger);
      shrink[half] = power_of_two((most[half] - larger) * scale);
      most[half] = larger;
      const float offset = larger * scale;
      float own = 0;
#pragma unroll
      for (int n = 0; n < N; ++n) {
#pragma unroll
        for (int k = 2 * half; k < 2 * half + 2; ++k) {
          p[n][k] = power_of_two(p[n][k] * scale - offset);
          own += p[n][k];
        }
      }
      sum[half] = sum[half] * shrink[half] + own;
    }
  }
};

}  // namespace tessera::device
