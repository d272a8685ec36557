// SPDX-License-Identifier: Apache-2.0
// What a block of attention's gradient on Hopper keeps in shared memory, what its kernels leave to
// one another, and which keys and queries a block has.
#pragma once

#include "engine/backends/cuda/module/hopper_tiles.h"
#include "engine/math/hopper_gradient.h"

namespace tessera::device {

inline constexpr int block_keys = kernels::BlockOrder::keys;
static_assert(block_keys == 64 * consumers);
inline constexpr int sum_numbers = 64 * 64;  // of a tile's sums that a group has

template <int D>
struct Pieces {
  static constexpr int queries = kernels::HopperGradient::queries(D);  // of a tile
  static constexpr int key_bytes = block_keys * D * 2;
  static constexpr int query_bytes = queries * D * 2;
  static constexpr int change_bytes = block_keys * queries * 2;
  static constexpr int sum_bytes = queries * D * 4;
  static constexpr int row_bytes = queries * 4;
  static constexpr int bytes = 2 * key_bytes + 2 * stages * query_bytes + 2 * change_bytes +
                               sum_bytes + 2 * stages * row_bytes + swizzle_bytes + 256;
  static_assert(sum_bytes == consumers * sum_numbers * 4);

  unsigned char* base;

  __device__ Pieces() : base(swizzled_memory()) {}
  __device__ unsigned char* keys() const { return base; }
  __device__ unsigned char* values() const { return keys() + key_bytes; }
  __device__ unsigned char* query(int stage) const {
    return values() + key_bytes + stage * query_bytes;
  }
  __device__ unsigned char* gradient(int stage) const { return query(stages + stage); }
  // Gradients of scores: 64 queries of 128 keys, and 64 more.
  __device__ unsigned char* changes(int step) const {
    return query(2 * stages) + step % 2 * change_bytes;
  }
  __device__ float* sums() const { return reinterpret_cast<float*>(changes(0) + 2 * change_bytes); }
  __device__ float* offsets(int stage) const { return sums() + queries * D + stage * queries; }
  __device__ float* products(int stage) const { return offsets(stages + stage); }

  __device__ Barrier* barrier(int number) const {
    return reinterpret_cast<Barrier*>(offsets(2 * stages)) + number;
  }
  __device__ Barrier* have_keys() const { return barrier(0); }
  __device__ Barrier* have_sums() const { return barrier(1); }
  __device__ Barrier* read_sums() const { return barrier(2); }
  __device__ Barrier* have_query(int stage) const { return barrier(3 + stage); }
  __device__ Barrier* have_gradient(int stage) const { return barrier(3 + stages + stage); }
  __device__ Barrier* read_query(int stage) const { return barrier(3 + 2 * stages + stage); }
  __device__ Barrier* read_gradient(int stage) const { return barrier(3 + 3 * stages + stage); }
  // Behind the barriers: the number of the block.
  __device__ unsigned* ticket() const { return reinterpret_cast<unsigned*>(barrier(16)); }

  __device__ void begin() const {
    constexpr int readers = consumers * group_warps;
    begin_barrier(have_keys(), 1);
    begin_barrier(have_sums(), readers);
    begin_barrier(read_sums(), 1);
    for (int s = 0; s < stages; ++s) {
      begin_barrier(have_query(s), 1);
      begin_barrier(have_gradient(s), 1);
      begin_barrier(read_query(s), readers);
      begin_barrier(read_gradient(s), readers);
    }
  }
};

// What the kernels leave to one another: kernels::HopperGradient's arrays.
struct BetweenKernels {
  float *along, *offsets, *products, *sums;
  unsigned *turns, *ticket;
  int tiles;

  BetweenKernels(const kernels::HopperGradient& at, void* memory)
      : along(array<float>(memory, at.along)),
        offsets(array<float>(memory, at.offsets)),
        products(array<float>(memory, at.products)),
        sums(array<float>(memory, at.sums)),
        turns(array<unsigned>(memory, at.turns)),
        ticket(array<unsigned>(memory, at.ticket)),
        tiles(static_cast<int>(at.tiles)) {}

 private:
  template <class N>
  static N* array(void* memory, Bytes at) {
    return reinterpret_cast<N*>(static_cast<std::byte*>(memory) + at.value);
  }
};

// The keys of a block, and the tiles of queries that see them: of each head that shares them from
// the last one down to the first.
template <int D>
struct Task {
  int tile, head, sequence;  // of keys
  int shared_by, query_tiles, first;

  __device__ Task(const AttentionShape& s, const kernels::BlockOrder::Block& block,
                  int query_tiles_)
      : tile(block.tile),
        head(block.head % static_cast<int>(s.kv_heads)),
        sequence(block.head / static_cast<int>(s.kv_heads)),
        shared_by(static_cast<int>(s.heads / s.kv_heads)),
        query_tiles(query_tiles_),
        first(tile * block_keys / Pieces<D>::queries) {}
  __device__ int steps() const { return shared_by * (query_tiles - first); }
  __device__ int query_tile(int step) const {
    return query_tiles - 1 - step % (query_tiles - first);
  }
  __device__ int query_head(int step) const {
    return head * shared_by + step / (query_tiles - first);
  }
  // Of the tile among those of all heads.
  __device__ std::int64_t place(const AttentionShape& s, int step) const {
    return (sequence * s.heads + query_head(step)) * query_tiles + query_tile(step);
  }
};

}  // namespace tessera::device
