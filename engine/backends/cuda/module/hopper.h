// SPDX-License-Identifier: Apache-2.0
// What Hopper has and other cards have not: four warps that multiply matrices in shared memory
// while they do something else (PTX ISA, "wgmma.mma_async"), boxes of tensors that come by
// themselves
// ("cp.async.bulk.tensor") and barriers that know how many bytes are still to come ("mbarrier").
//
// A matrix in shared memory consists of rows of 64 numbers of two bytes. Eight rows are 1,024
// bytes, in which 16 bytes lie at their number exclusive or that of their row (128-byte swizzle):
// who reads a column finds it in all banks.
#pragma once

#include "engine/backends/cuda/module/device.h"

#ifdef __CUDACC__
#include <cuda.h>
#endif

namespace tessera::device {

inline constexpr int group_warps = 4;  // that multiply together
inline constexpr int group_threads = group_warps * warp_threads;
inline constexpr int swizzle_columns = 64;  // of a row
inline constexpr int swizzle_bytes = 1024;  // of eight rows: matrices begin at multiples of it

/// Boxes of `rows` x 64 numbers of the heads of tokens: of which (column, head, token, sequence) is
/// the first. What lies behind the last token is 0.
struct HeadBoxes {
  const void* at;
  std::int64_t width, heads, length, batch;
  std::int64_t stride;  // from one token to the next
  int rows;
  bool is_bfloat16;
};

#ifdef __CUDACC__
using TensorMap = CUtensorMap;
using Barrier = std::uint64_t;

/// Fails: an error code of CUDA. The driver's function is looked up once.
inline int make_map(const HeadBoxes& boxes, TensorMap& map) {
  using Encode = decltype(&cuTensorMapEncodeTiled);
  static const Encode encode = [] {
    void* found = nullptr;
    cudaDriverEntryPointQueryResult result{};
    const cudaError_t code = cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &found,
                                                              12000, cudaEnableDefault, &result);
    return code == cudaSuccess ? reinterpret_cast<Encode>(found) : nullptr;
  }();
  if (encode == nullptr) return cudaErrorNotSupported;
  constexpr std::int64_t number_bytes = 2;
  const auto size = [](std::int64_t n) { return static_cast<cuuint64_t>(n); };
  const cuuint64_t sizes[] = {size(boxes.width), size(boxes.heads), size(boxes.length),
                              size(boxes.batch)};
  const cuuint64_t strides[] = {size(boxes.width * number_bytes), size(boxes.stride * number_bytes),
                                size(boxes.length * boxes.stride * number_bytes)};
  const cuuint32_t box[] = {swizzle_columns, 1, static_cast<cuuint32_t>(boxes.rows), 1};
  const cuuint32_t steps[] = {1, 1, 1, 1};
  const CUresult made = encode(
      &map, boxes.is_bfloat16 ? CU_TENSOR_MAP_DATA_TYPE_BFLOAT16 : CU_TENSOR_MAP_DATA_TYPE_FLOAT16,
      4, const_cast<void*>(boxes.at), sizes, strides, box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE,
      CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
      CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  return made == CUDA_SUCCESS ? cudaSuccess : cudaErrorInvalidValue;
}

/// Whether the current device is of Hopper's kind. Devices of one machine are taken for equal.
inline bool has_wgmma() {
  static const int major = [] {
    int device = 0;
    int found = 0;
    if (cudaGetDevice(&device) != cudaSuccess) return 0;
    cudaDeviceGetAttribute(&found, cudaDevAttrComputeCapabilityMajor, device);
    return found;
  }();
  return major == 9;
}

__device__ inline unsigned shared_address(const void* at) {
  return static_cast<unsigned>(__cvta_generic_to_shared(at));
}

/// Of `arrivals`; everybody sees it after a barrier of the block.
__device__ inline void begin_barrier(Barrier* barrier, int arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;"
               :
               : "r"(shared_address(barrier)), "r"(arrivals)
               : "memory");
  asm volatile("fence.mbarrier_init.release.cluster;" : : : "memory");
}
__device__ inline void arrive(Barrier* barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];"
               :
               : "r"(shared_address(barrier))
               : "memory");
}
/// Arrives, and so many bytes more have to come.
__device__ inline void arrive_expecting(Barrier* barrier, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"
               :
               : "r"(shared_address(barrier)), "r"(bytes)
               : "memory");
}
/// Until the phase of this number, modulo 2, is over: from 0.
__device__ inline void wait_for_phase(Barrier* barrier, unsigned phase) {
  unsigned over = 0;
  while (over == 0) {
    asm volatile(
        "{.reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;"
        "selp.u32 %0, 1, 0, p;}"
        : "=r"(over)
        : "r"(shared_address(barrier)), "r"(phase)
        : "memory");
  }
}

/// Copies a box; its bytes arrive at the barrier.
__device__ inline void load_box(void* to, const TensorMap& map, Barrier* barrier, int column,
                                int head, int token, int sequence) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
      "[%0], [%1, {%3, %4, %5, %6}], [%2];"
      :
      : "r"(shared_address(to)), "l"(&map), "r"(shared_address(barrier)), "r"(column), "r"(head),
        "r"(token), "r"(sequence)
      : "memory");
}

/// Registers that the warps of a group keep, of which others get the rest.
template <int count>
__device__ inline void keep_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" : : "n"(count));
}
template <int count>
__device__ inline void take_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" : : "n"(count));
}

/// What registers hold now is what products read and write from here on.
__device__ inline void begin_products() {
  asm volatile("wgmma.fence.sync.aligned;" : : : "memory");
}
__device__ inline void end_products() {
  asm volatile("wgmma.commit_group.sync.aligned;" : : : "memory");
}
/// For all products up to an end, but for the `left` youngest ends.
template <int left>
__device__ inline void wait_for_products() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" : : "n"(left) : "memory");
}
/// Keeps the compiler from moving what is done with the numbers across this place.
template <int N>
__device__ inline void hold(float (&c)[N][4]) {
#pragma unroll
  for (int n = 0; n < N; ++n) {
#pragma unroll
    for (int i = 0; i < 4; ++i) asm volatile("" : "+f"(c[n][i]) : : "memory");
  }
}

#define TESSERA_FOUR(n) "+f"(c[n][0]), "+f"(c[n][1]), "+f"(c[n][2]), "+f"(c[n][3])
#define TESSERA_NUMBERS_64                                                             \
  TESSERA_FOUR(0), TESSERA_FOUR(1), TESSERA_FOUR(2), TESSERA_FOUR(3), TESSERA_FOUR(4), \
      TESSERA_FOUR(5), TESSERA_FOUR(6), TESSERA_FOUR(7)
#define TESSERA_NUMBERS_128                                                                 \
  TESSERA_NUMBERS_64, TESSERA_FOUR(8), TESSERA_FOUR(9), TESSERA_FOUR(10), TESSERA_FOUR(11), \
      TESSERA_FOUR(12), TESSERA_FOUR(13), TESSERA_FOUR(14), TESSERA_FOUR(15)

// clang-format off
#define TESSERA_WGMMA_SHARED_128(types) \
  asm volatile( \
      "{.reg .pred p; setp.ne.b32 p, %66, 0;" \
      "wgmma.mma_async.sync.aligned.m64n128k16.f32." types " " \
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15," \
      " %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31," \
      " %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47," \
      " %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, " \
      "%64, %65, p, 1, 1, 0, 0;}" \
      : TESSERA_NUMBERS_128 \
      : "l"(a), "l"(b), "r"(add ? 1 : 0))

#define TESSERA_WGMMA_SHARED_64(types, by_columns) \
  asm volatile( \
      "{.reg .pred p; setp.ne.b32 p, %34, 0;" \
      "wgmma.mma_async.sync.aligned.m64n64k16.f32." types " " \
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15," \
      " %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, " \
      "%32, %33, p, 1, 1, " by_columns ", " by_columns ";}" \
      : TESSERA_NUMBERS_64 \
      : "l"(a), "l"(b), "r"(add ? 1 : 0))

#define TESSERA_WGMMA_KEPT_128(types) \
  asm volatile( \
      "{.reg .pred p; setp.ne.b32 p, %69, 0;" \
      "wgmma.mma_async.sync.aligned.m64n128k16.f32." types " " \
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15," \
      " %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31," \
      " %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47," \
      " %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, " \
      "{%64, %65, %66, %67}, %68, p, 1, 1, 1;}" \
      : TESSERA_NUMBERS_128 \
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(1))

#define TESSERA_WGMMA_KEPT_64(types) \
  asm volatile( \
      "{.reg .pred p; setp.ne.b32 p, %37, 0;" \
      "wgmma.mma_async.sync.aligned.m64n64k16.f32." types " " \
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15," \
      " %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, " \
      "{%32, %33, %34, %35}, %36, p, 1, 1, 1;}" \
      : TESSERA_NUMBERS_64 \
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(1))

// clang-format on

/// c = a b, or c += a b: 64 x 16 by 16 x 8 N, both in shared memory with 16 of their 64 columns, b
/// transposed. `a` and `b`: as matrix_of.
template <class T, int N>
__device__ inline void multiply_shared(float (&c)[N][4], std::uint64_t a, std::uint64_t b,
                                       bool add) {
  if constexpr (N == 8 && std::is_same_v<T, BFloat16>) {
    TESSERA_WGMMA_SHARED_64("bf16.bf16", "0");
  } else if constexpr (N == 8) {
    TESSERA_WGMMA_SHARED_64("f16.f16", "0");
  } else if constexpr (std::is_same_v<T, BFloat16>) {
    TESSERA_WGMMA_SHARED_128("bf16.bf16");
  } else {
    TESSERA_WGMMA_SHARED_128("f16.f16");
  }
}

/// The same of the other two: 16 of their rows, a transposed.
template <class T>
__device__ inline void multiply_columns(float (&c)[8][4], std::uint64_t a, std::uint64_t b,
                                        bool add) {
  if constexpr (std::is_same_v<T, BFloat16>) {
    TESSERA_WGMMA_SHARED_64("bf16.bf16", "1");
  } else {
    TESSERA_WGMMA_SHARED_64("f16.f16", "1");
  }
}

/// c += a b, where a is 64 x 16 in registers, as multiply_add of tensor_core.h has it, and b 16
/// rows of 8 * N columns.
template <class T, int N>
__device__ inline void multiply_kept(float (&c)[N][4], const unsigned (&a)[4], std::uint64_t b) {
  if constexpr (N == 8 && std::is_same_v<T, BFloat16>) {
    TESSERA_WGMMA_KEPT_64("bf16.bf16");
  } else if constexpr (N == 8) {
    TESSERA_WGMMA_KEPT_64("f16.f16");
  } else if constexpr (std::is_same_v<T, BFloat16>) {
    TESSERA_WGMMA_KEPT_128("bf16.bf16");
  } else {
    TESSERA_WGMMA_KEPT_128("f16.f16");
  }
}
#else
using TensorMap = HeadBoxes;
using emulator::arrive;
using emulator::arrive_expecting;
using emulator::Barrier;
using emulator::begin_barrier;
using emulator::end_products;
using emulator::shared_address;
using emulator::wait_for_phase;
using emulator::wait_for_products;

inline bool has_wgmma() { return true; }
inline int make_map(const HeadBoxes& boxes, TensorMap& map) {
  map = boxes;
  return 0;
}
inline void load_box(void* to, const TensorMap& map, Barrier* barrier, int column, int head,
                     int token, int sequence) {
  const auto* const from = static_cast<const std::uint16_t*>(map.at);
  emulator::load_box(to, barrier, map.rows, [=](int row, int c) -> std::uint16_t {
    if (token + row >= map.length || column + c >= map.width) return 0;
    return from[(sequence * map.length + token + row) * map.stride + head * map.width + column + c];
  });
}
template <int count>
void keep_registers() {}
template <int count>
void take_registers() {}
inline void begin_products() {}
template <int N>
void hold(float (&)[N][4]) {}
template <class T, int N>
void multiply_shared(float (&c)[N][4], std::uint64_t a, std::uint64_t b, bool add) {
  emulator::multiply_later<T>({&c[0][0], N, nullptr, a, b, add, false, false});
}
template <class T>
void multiply_columns(float (&c)[8][4], std::uint64_t a, std::uint64_t b, bool add) {
  emulator::multiply_later<T>({&c[0][0], 8, nullptr, a, b, add, true, true});
}
template <class T, int N>
void multiply_kept(float (&c)[N][4], const unsigned (&a)[4], std::uint64_t b) {
  emulator::multiply_later<T>({&c[0][0], N, a, 0, b, true, false, true});
}
#endif

/// A matrix in shared memory for products ("Matrix Descriptor", PTX ISA). `chunk_bytes`: from 64
/// columns to the next 64, where the rows are those of a product that is not transposed.
__device__ inline std::uint64_t matrix_of(const void* at, int chunk_bytes = 16) {
  constexpr std::uint64_t swizzled = std::uint64_t{1} << 62;
  const auto field = [](int bytes) { return static_cast<std::uint64_t>(bytes >> 4); };
  return swizzled | field(swizzle_bytes) << 32 | field(chunk_bytes) << 16 |
         (static_cast<std::uint64_t>(shared_address(at)) >> 4 & 0x3FFF);
}

/// The matrix that begins so many bytes further on; addresses are the lower half of its words.
__device__ inline std::uint64_t further(std::uint64_t matrix, int bytes) {
  const auto low = static_cast<std::uint32_t>(matrix) + static_cast<std::uint32_t>(bytes >> 4);
  return (matrix & 0xFFFFFFFF00000000ULL) | low;
}

}  // namespace tessera::device
