// SPDX-License-Identifier: Apache-2.0
// In the place of CUDA's header: what the project's kernels use of the language, on the CPU.
//
// The idea: the threads of a block are fibers, of which one runs until it waits for the others; the
// blocks come one after another. Shared memory begins as NaN, and a copy to it that may come later
// comes at once for every other thread, for the rest when it is waited for. What a warp does
// together is what the PTX ISA says of "Matrix Fragments for mma.m16n8k16" and "ldmatrix", lane by
// lane.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstring>
#include <functional>
#include <type_traits>

#include "tessera/math_arrays.h"

#define __global__
#define __device__
#define __shared__ static
#define __launch_bounds__(...)
#define __grid_constant__

using cudaStream_t = void*;

struct dim3 {
  unsigned x = 1, y = 1, z = 1;
  explicit dim3(unsigned of_x = 1, unsigned of_y = 1, unsigned of_z = 1)
      : x(of_x), y(of_y), z(of_z) {}
};

inline dim3 threadIdx, blockIdx, blockDim, gridDim;

namespace tessera::device::emulator {

/// What has been launched; `only_counts`: nothing runs, so arrays need only addresses.
struct Launched {
  bool only_counts = false;
  std::int64_t kernels = 0, memsets = 0;
};
inline Launched launched;

}  // namespace tessera::device::emulator

inline int cudaMemsetAsync(void* at, int value, std::size_t bytes, cudaStream_t) {
  ++tessera::device::emulator::launched.memsets;
  if (!tessera::device::emulator::launched.only_counts) std::memset(at, value, bytes);
  return 0;
}

namespace tessera::device::emulator {

/// Runs a kernel, all of its blocks. Returns what CUDA would: 0, or why it does not start or fails.
inline constexpr int invalid_value = 1;          // more shared memory than the card has
inline constexpr int invalid_configuration = 9;  // no blocks or threads, or too many
inline constexpr int misaligned_address = 716;
int run(const dim3& blocks, int threads, std::size_t shared, const std::function<void()>& kernel);
unsigned char* shared_bytes();
/// The shared memory of a block, which a test may make that of a smaller card.
std::size_t& shared_bytes_max();
void wait_for_block();
void wait_for_warp();
/// Moves so many bytes by one instruction, of which `at` is the place in memory.
void access(void* to, const void* from, const void* at, std::size_t bytes);
float from_lane(float x, int lane);
int own_lane();
/// Defined for numbers of type T: BFloat16, Float16.
template <class T>
void multiply_add(float (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1);
void load_matrices(unsigned (&r)[4], const void* row, bool transposed);
void copy_later(void* to, const void* from, bool exists);
void end_copies();
void finish_copies(std::size_t groups_left);
template <int left>
void wait_for_copies() {
  finish_copies(left);
}

/// "mbarrier": a phase is over when all have arrived and no bytes are to come.
struct Barrier {
  std::uint8_t arrivals, missing;
  std::uint16_t phase;
  std::int32_t bytes;
};
unsigned shared_address(const void* at);
void begin_barrier(Barrier* barrier, int arrivals);
void arrive(Barrier* barrier);
void arrive_expecting(Barrier* barrier, int bytes);
void wait_for_phase(Barrier* barrier, unsigned phase);
/// `rows` x 64 numbers, swizzled by 128 bytes: at once, or when somebody waits for the barrier.
void load_box(void* to, Barrier* barrier, int rows,
              const std::function<std::uint16_t(int row, int column)>& number);

/// Bytes likewise.
void load_bytes(void* to, const void* from, int bytes, Barrier* barrier);

/// Shared memory is read when somebody waits for that, and added when they wait for sums.
void add_floats(float* to, const float* from, int bytes, bool add);
void wait_for_reads();
void wait_for_sums();
unsigned take_ticket(unsigned* tickets);
/// Blocks run one after another: a turn that has not come never does.
void wait_for_turn(const unsigned* turns, unsigned number);
void pass_turn(unsigned* turns, unsigned number);
void meet_threads(int count);
void store_matrices(void* row, const unsigned (&r)[4]);
inline void publish_shared() {}

/// "wgmma.mma_async" of 64 x 16 by 16 x 8 eights: carried out when it is waited for.
struct Product {
  float* c;  // of this thread
  int eights;
  const unsigned* a;     // of this thread; null: in shared memory
  std::uint64_t from_a;  // matrix descriptors
  std::uint64_t from_b;
  bool add;
  bool columns_of_a, columns_of_b;  // neighbours in memory are those of a column of 16 rows of b
  float (*number)(std::uint16_t bits) = nullptr;
};
void multiply_later(const Product& product);
template <class T>
void multiply_later(Product product) {
  product.number = [](std::uint16_t bits) { return kernels::load(T{bits}); };
  multiply_later(product);
}
void end_products();
void finish_products(std::size_t ends_left);
template <int left>
void wait_for_products() {
  finish_products(left);
}

}  // namespace tessera::device::emulator

inline void __syncwarp() { tessera::device::emulator::wait_for_warp(); }
inline void __syncthreads() { tessera::device::emulator::wait_for_block(); }
inline float __shfl_sync(unsigned, float x, int lane) {
  return tessera::device::emulator::from_lane(x, lane);
}
inline float __shfl_xor_sync(unsigned, float x, int mask) {
  return tessera::device::emulator::from_lane(x, tessera::device::emulator::own_lane() ^ mask);
}
