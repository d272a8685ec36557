// SPDX-License-Identifier: Apache-2.0
// What PyTorch's caching allocator would take from a device: the account of one rank.
//
// The idea: memory is taken in segments, cut into blocks that are never given to another stream,
// and kept when it is freed. What other streams have used is free once the host, asking at its next
// allocation, finds that they are done: so the peak depends on when the host asks, and on the order
// of everything before. Rules as of PyTorch 2.x (c10/cuda/CUDACachingAllocator.cpp), restated:
// sizes are multiples of 512 B; up to 1 MiB come from segments of 2 MiB, below 10 MiB from segments
// of 20 MiB, others have their own, in steps of 2 MiB; the smallest free block serves.
//
//   CachingAllocator allocator({.capacity = 80_GiB});
//   const auto given = allocator.allocate(Bytes{4096}, compute, host_time);
//   allocator.release(given.block, gather, gather_ends);
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <limits>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "sim/memory/free_blocks.h"
#include "tessera/types.h"

namespace tessera::sim {

struct CachingOptions {
  Bytes capacity{};  // of the device, for its segments; 0: as much as is asked for
  /// One range of addresses per stream and pool that grows by pages, instead of segments.
  bool expandable_segments = false;
};

class CachingAllocator {
 public:
  using BlockId = std::int32_t;

  struct Given {
    BlockId block = -1;
    bool retried = false;   // only after the host had waited and given back what was cached
    Time waited_until = 0;  // if so
    bool fits = true;       // false: even then it was too much; from then on there is no limit
  };

  struct Piece {
    Bytes address{}, bytes{};
    Bytes segment{};  // its address
    std::int32_t stream = 0;
    BlockId block = -1;  // none: it is free
  };

  explicit CachingAllocator(const CachingOptions& options)
      : options_(options), limited_(options.capacity > Bytes{}) {}

  /// At host time `now`, which never falls. REQUIRES: bytes >= 0.
  Given allocate(Bytes bytes, StreamId stream, Time now);
  /// Its own stream, or one that it waits for, was the last to use it.
  void release(BlockId block);
  /// `user`, another stream, uses it until `done` (PyTorch's record_stream).
  void release(BlockId block, StreamId user, Time done);

  /// What a request of `bytes` takes from the device at most.
  static Bytes most_taken(Bytes bytes);
  /// Requests that take no more than `bytes` together find it.
  bool has_room(Bytes bytes) const { return !limited_ || reserved_ + bytes <= options_.capacity; }

  Bytes allocated() const { return allocated_; }  // handed out, as rounded
  Bytes active() const { return active_; }        // and what other streams may still use
  Bytes reserved() const { return reserved_; }    // taken from the device
  std::int64_t retries() const { return retries_; }
  /// What it had taken from the device, by address, when a request did not fit; empty: all did.
  const std::vector<Piece>& pieces_at_failure() const { return pieces_at_failure_; }

 private:
  static constexpr BlockId none = -1;
  static constexpr Time never = std::numeric_limits<Time>::max();
  enum class Pool : std::uint8_t { small, large };
  enum class Use : std::uint8_t { unmapped, free, used, awaited };

  struct Block {
    std::int64_t address = 0;
    std::int64_t bytes = 0;
    BlockId before = none;  // in its segment
    BlockId after = none;
    std::int32_t stream = 0;
    Pool pool = Pool::small;
    Use use = Use::free;
  };
  struct Awaited {
    Time done;
    BlockId block;
  };
  // Addresses of a stream and pool that grow by pages.
  struct Range {
    BlockId tail = none;                              // what was never mapped
    std::set<std::pair<std::int64_t, BlockId>> gaps;  // address and block of all that is not mapped
  };

  const Block& at(BlockId id) const { return blocks_[static_cast<std::size_t>(id)]; }
  Block& at(BlockId id) { return blocks_[static_cast<std::size_t>(id)]; }
  FreeBlocks& cache(const Block& block) { return free_[block.pool == Pool::large ? 1 : 0]; }
  FreeBlocks::Entry key(BlockId id);
  BlockId new_block(const Block& block);
  void set_free(BlockId id);
  void swallow_next(BlockId id);
  void cut(BlockId id, std::int64_t bytes);
  void see_events(Time now);
  void make_free(BlockId id);
  Time synchronise(Time now);
  std::vector<Piece> pieces() const;

  BlockId find(std::int64_t bytes, std::int32_t stream, Pool pool);
  /// A free block of at least `bytes` in memory that the device gives, or none.
  BlockId more(std::int64_t bytes, std::int32_t stream, Pool pool);
  BlockId new_segment(std::int64_t bytes, std::int32_t stream, Pool pool);
  BlockId expand(std::int64_t bytes, std::int32_t stream, Pool pool);
  bool takes(std::int64_t bytes);
  Range& range_of(std::int32_t stream, Pool pool);
  BlockId begin_of_run(const Range& range, std::int64_t bytes);
  void map_pages(Range& range, BlockId id, std::int64_t bytes);
  void give_back();
  void unmap_pages(BlockId id);

  const CachingOptions options_;
  bool limited_;
  std::vector<Block> blocks_;
  std::vector<BlockId> unused_;
  std::array<FreeBlocks, 2> free_;                       // by Pool
  std::map<std::int32_t, std::deque<Awaited>> awaited_;  // by stream, in the order of releases
  Time next_done_ = never;                               // of the first of each stream
  std::map<std::pair<std::int32_t, Pool>, Range> ranges_;
  std::int64_t next_address_ = 0;
  Bytes allocated_{}, active_{}, reserved_{};
  std::int64_t retries_ = 0;
  std::vector<Piece> pieces_at_failure_;
};

}  // namespace tessera::sim
