// SPDX-License-Identifier: Apache-2.0
// Matrices become operands in fp8 (kernels::Fp8Operand), with the codes and scales of the CPU's
// (training/kernels/fp8_rows.h).
//
// The idea: a block of threads has 128 x 128 numbers, which stay in registers: 16 of its rows and 4
// neighbours of each are a thread's. So each number is read once, whatever the scales are of.
#include "engine/backends/cuda/module/language_kernels.h"
#include "engine/backends/cuda/module/packs.h"
#include "engine/math/e4m3.h"

namespace tessera::device {
namespace {

using kernels::Fp8Operand;

constexpr int side = static_cast<int>(kernels::MatmulShape::scaled_together);
constexpr int each = 4;            // neighbours of a thread
constexpr int own = side / warps;  // rows of a thread
static_assert(warp_threads * each == side);

template <class T>
struct ToFp8 {
  const T* from;
  StoredRows stored;
  Fp8Operand to;
  std::uint8_t* codes;
  float* scales;
  bool packs;  // of `each`
};

using Numbers = float[own][each];

__device__ std::uint32_t larger(std::uint32_t a, std::uint32_t b) { return a > b ? a : b; }

// Of all lanes of a warp, on each of them.
__device__ std::uint32_t warp_larger(std::uint32_t x) {
  for (int apart = warp_threads / 2; apart > 0; apart /= 2) {
    const float other = __shfl_xor_sync(0xFFFFFFFFU, std::bit_cast<float>(x), apart);
    x = larger(x, std::bit_cast<std::uint32_t>(other));
  }
  return x;
}

// Beyond the matrix there are zeros.
template <class T>
__device__ void load_numbers(const ToFp8<T>& item, std::int64_t row, std::int64_t column,
                             Numbers& x) {
  const std::int64_t left = item.stored.width - column;
#pragma unroll
  for (int i = 0; i < own; ++i) {
    const std::int64_t r = row + i * warps;
    const T* const from = item.from + r * item.stored.stride + column;
    const bool inside = r < item.stored.count;
    if (item.packs && inside && left >= each) {
      const auto in = load_pack<T, each>(from);
      for (int j = 0; j < each; ++j) x[i][j] = load(in.at[j]);
    } else {
      for (int j = 0; j < each; ++j) x[i][j] = inside && j < left ? load(from[j]) : 0.0F;
    }
  }
}

// Rows as they lie in memory become rows of codes.
template <class T>
__global__ void rows_to_fp8_kernel(ToFp8<T> item) {
  const int warp = static_cast<int>(threadIdx.x) / warp_threads;
  const int lane = static_cast<int>(threadIdx.x) % warp_threads;
  const auto groups = static_cast<unsigned>(item.to.groups());
  const std::int64_t group = blockIdx.x % groups;
  const std::int64_t row = std::int64_t{blockIdx.x / groups} * side + warp;
  const std::int64_t column = group * side + lane * each;
  Numbers x;
  load_numbers(item, row, column, x);
  std::uint32_t largest[own];
  std::uint32_t of_all = 0;
#pragma unroll
  for (int i = 0; i < own; ++i) {
    std::uint32_t most = 0;
    for (int j = 0; j < each; ++j) most = larger(most, kernels::magnitude_bits(x[i][j]));
    largest[i] = warp_larger(most);
    of_all = larger(of_all, largest[i]);
  }
  if (item.to.blocks) {
    __shared__ std::uint32_t parts[warps];
    if (lane == 0) parts[warp] = of_all;
    __syncthreads();
    for (int k = 0; k < warps; ++k) of_all = larger(of_all, parts[k]);
  }
#pragma unroll
  for (int i = 0; i < own; ++i) {
    const std::int64_t r = row + i * warps;
    if (r >= item.to.rows) continue;
    const float scale = kernels::e4m3_scale(item.to.blocks ? of_all : largest[i]);
    const float inverse = kernels::e4m3_inverse(scale);
    Pack<std::uint8_t, each> out;
    for (int j = 0; j < each; ++j) out.at[j] = kernels::to_e4m3(x[i][j] * inverse);
    store_pack(item.codes + r * item.to.row_codes() + column, out);
    if (lane == 0 && (!item.to.blocks || (i == 0 && warp == 0))) {
      item.scales[item.to.scale_at(r, group)] = scale;
    }
  }
}

// Columns do: codes change places in shared memory.
template <class T>
__global__ void columns_to_fp8_kernel(ToFp8<T> item) {
  __shared__ std::uint32_t found[warps][side];
  __shared__ Pack<std::uint8_t, each> turned[side][warp_threads + 1];  // rows begin in other banks
  const int warp = static_cast<int>(threadIdx.x) / warp_threads;
  const int lane = static_cast<int>(threadIdx.x) % warp_threads;
  const auto groups = static_cast<unsigned>(item.to.groups());
  const std::int64_t group = blockIdx.x % groups;
  const std::int64_t first = std::int64_t{blockIdx.x / groups} * side;
  Numbers x;
  load_numbers(item, group * side + warp, first + lane * each, x);
  for (int j = 0; j < each; ++j) {
    std::uint32_t most = 0;
#pragma unroll
    for (int i = 0; i < own; ++i) most = larger(most, kernels::magnitude_bits(x[i][j]));
    found[warp][lane * each + j] = most;
  }
  __syncthreads();
  std::uint32_t largest[each] = {};
  std::uint32_t of_all = 0;
  for (int j = 0; j < each; ++j) {
    for (int k = 0; k < warps; ++k) largest[j] = larger(largest[j], found[k][lane * each + j]);
    of_all = larger(of_all, largest[j]);
  }
  of_all = warp_larger(of_all);
#pragma unroll
  for (int j = 0; j < each; ++j) {
    const std::int64_t r = first + lane * each + j;
    const float scale = kernels::e4m3_scale(item.to.blocks ? of_all : largest[j]);
    const float inverse = kernels::e4m3_inverse(scale);
#pragma unroll
    for (int i = 0; i < own; ++i) {
      const int k = warp + i * warps;
      turned[lane * each + j][k / each].at[k % each] = kernels::to_e4m3(x[i][j] * inverse);
    }
    const bool tells = !item.to.blocks || (lane == 0 && j == 0);
    if (warp == 0 && r < item.to.rows && tells) item.scales[item.to.scale_at(r, group)] = scale;
  }
  __syncthreads();
  for (int i = 0; i < own; ++i) {
    const int r = warp + i * warps;
    if (first + r >= item.to.rows) continue;
    std::uint8_t* const to = item.codes + (first + r) * item.to.row_codes() + group * side;
    store_pack(to + lane * each, turned[r][lane]);
  }
}

}  // namespace

int to_fp8(const StoredRows& rows, ConstArray from, bool down, const Fp8Operand& operand,
           std::uint8_t* codes, float* scales, CudaStream stream) {
  const std::int64_t blocks = (operand.rows + side - 1) / side * operand.groups();
  const Grid grid{dim3(static_cast<unsigned>(blocks))};
  return typed_launch(from.dtype, [&]<class T>(T*) {
    const T* const at = from.as<T>();
    const bool packs = rows.stride % each == 0 && is_aligned(at, each);
    const ToFp8<T> item{at, rows, operand, codes, scales, packs};
    return launch(down ? columns_to_fp8_kernel<T> : rows_to_fp8_kernel<T>, grid, stream, item);
  });
}

}  // namespace tessera::device
