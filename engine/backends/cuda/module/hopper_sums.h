// SPDX-License-Identifier: Apache-2.0
// Sums in the memory of a GPU to which blocks add in one order: bytes of shared memory that are
// added by themselves ("cp.reduce.async.bulk", PTX ISA), and turns.
#pragma once

#include "engine/backends/cuda/module/hopper.h"

namespace tessera::device {

#ifdef __CUDACC__
/// Copies to shared memory; the bytes arrive at the barrier. Multiples of 16 bytes.
__device__ inline void load_bytes(void* to, const void* from, int bytes, Barrier* barrier) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
      :
      : "r"(shared_address(to)), "l"(from), "r"(bytes), "r"(shared_address(barrier))
      : "memory");
}

/// What this thread wrote to shared memory is what products and copies of bytes read from there
/// once they come after a barrier.
__device__ inline void publish_shared() {
  asm volatile("fence.proxy.async.shared::cta;" : : : "memory");
}

/// to += from, or to = from: floats of shared memory, at some time before wait_for_sums.
__device__ inline void add_floats(float* to, const float* from, int bytes, bool add) {
  if (add) {
    asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%0], [%1], %2;"
                 :
                 : "l"(to), "r"(shared_address(from)), "r"(bytes)
                 : "memory");
  } else {
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;"
                 :
                 : "l"(to), "r"(shared_address(from)), "r"(bytes)
                 : "memory");
  }
  asm volatile("cp.async.bulk.commit_group;" : : : "memory");
}
/// Until shared memory has been read; until everything is in the sums.
__device__ inline void wait_for_reads() {
  asm volatile("cp.async.bulk.wait_group.read 0;" : : : "memory");
}
__device__ inline void wait_for_sums() {
  asm volatile("cp.async.bulk.wait_group 0;" : : : "memory");
}

/// How many have come before this one. REQUIRES: 0 at first.
__device__ inline unsigned take_ticket(unsigned* tickets) { return atomicAdd(tickets, 1U); }

/// Until so many had their turn. Sums are ordered with it, too.
__device__ inline void wait_for_turn(const unsigned* turns, unsigned number) {
  unsigned now = 0;
  do {
    asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(now) : "l"(turns) : "memory");
  } while (now != number);
  asm volatile("fence.proxy.async.global;" : : : "memory");
}
__device__ inline void pass_turn(unsigned* turns, unsigned number) {
  asm volatile("fence.proxy.async.global;" : : : "memory");
  asm volatile("st.release.gpu.global.u32 [%0], %1;" : : "l"(turns), "r"(number + 1) : "memory");
}

/// A barrier of so many threads of the block, whole warps.
template <int count>
__device__ inline void meet_threads() {
  asm volatile("bar.sync 1, %0;" : : "n"(count) : "memory");
}

/// As load_matrices of tensor_core.h, the other way.
__device__ inline void store_matrices(void* row, const unsigned (&r)[4]) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};"
               :
               : "r"(shared_address(row)), "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3])
               : "memory");
}
#else
using emulator::add_floats;
using emulator::load_bytes;
using emulator::pass_turn;
using emulator::publish_shared;
using emulator::store_matrices;
using emulator::take_ticket;
using emulator::wait_for_reads;
using emulator::wait_for_sums;
using emulator::wait_for_turn;
template <int count>
void meet_threads() {
  emulator::meet_threads(count);
}
#endif

}  // namespace tessera::device
