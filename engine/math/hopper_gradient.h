// SPDX-License-Identifier: Apache-2.0
// The memory that attention's gradient takes by kernels for Hopper. It is computed without a GPU,
// so that a simulator plans with the same figures.
#pragma once

#include "tessera/math_shapes.h"
#include "tessera/types.h"

namespace tessera::kernels {

/// One array behind another, each beginning at a multiple of 128 bytes; per head of queries of each
/// sequence, tile after tile of its rows.
struct HopperGradient {
  /// Whether such kernels exist for heads of this size and dtype.
  static constexpr bool takes(const AttentionShape& s) {
    return s.dtype != DType::float32 && (s.head_dim == 64 || s.head_dim == 128);
  }
  /// Queries of a tile: the gradients of 64 x 128 numbers are what registers have room for.
  static constexpr int queries(std::int64_t head_dim) { return head_dim == 64 ? 128 : 64; }

  std::int64_t tiles;  // of a head
  Bytes along;         // the product of out and its gradient: a number per row, as rows lie
  Bytes offsets;       // what makes 2 to the power of a score minus it the weight: by tiles
  Bytes products;      // `along` by tiles
  Bytes sums;          // the gradients of queries, by tiles of 32 KiB
  Bytes turns;         // a number per tile: how many blocks have added to it
  Bytes ticket;        // a number: how many blocks have begun
  Bytes end;

  constexpr explicit HopperGradient(const AttentionShape& s)
      : tiles((s.length + queries(s.head_dim) - 1) / queries(s.head_dim)) {
    const std::int64_t all = s.batch * s.heads * tiles;
    std::int64_t used = 0;
    const auto take = [&](std::int64_t numbers) {
      const Bytes at{used};
      used += (numbers * 4 + 127) / 128 * 128;
      return at;
    };
    along = take(s.rows());
    offsets = take(all * queries(s.head_dim));
    products = take(all * queries(s.head_dim));
    sums = take(all * queries(s.head_dim) * s.head_dim);
    turns = take(all);
    ticket = take(1);
    end = Bytes{used};
  }
};

/// In which order blocks of its kernel begin, each with some keys of one head of keys: `together`
/// heads of all sequences at a time, of each the next keys. So the keys before a block's have begun
/// before it, and are about one tile of queries ahead; and few heads fill the L2 cache.
struct BlockOrder {
  static constexpr int keys = 128;                 // of a block
  static constexpr std::int64_t processors = 132;  // of an H100 and an H200, that run a block each

  struct Block {
    int head, tile;  // of keys
  };

  int tiles, heads, together;

  /// `query_tiles`: HopperGradient::tiles.
  constexpr BlockOrder(const AttentionShape& s, std::int64_t query_tiles)
      : tiles(static_cast<int>((s.length + keys - 1) / keys)),
        heads(static_cast<int>(s.batch * s.kv_heads)),
        together(1) {
    const std::int64_t steps = (s.heads / s.kv_heads * (query_tiles + 1) + 1) / 2;  // of a block
    const std::int64_t wanted = (processors + steps - 1) / steps;
    together = wanted < heads ? static_cast<int>(wanted) : heads;
  }
  constexpr int blocks() const { return heads * tiles; }
  constexpr Block block(int number) const {
    const int first = number / (together * tiles) * together;
    const int width = heads - first < together ? heads - first : together;
    const int rest = number % (together * tiles);
    return {first + rest % width, rest / width};
  }
};

}  // namespace tessera::kernels
