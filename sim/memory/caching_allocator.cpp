// SPDX-License-Identifier: Apache-2.0
#include "sim/memory/caching_allocator.h"

#include <algorithm>

#include "tessera/assert.h"

namespace tessera::sim {
namespace {

constexpr std::int64_t mib = 1 << 20;
constexpr std::int64_t block_unit = 512;
constexpr std::int64_t small_most = mib;          // of a block in the small pool
constexpr std::int64_t small_segment = 2 * mib;   // and a page of its ranges
constexpr std::int64_t large_segment = 20 * mib;  // likewise
constexpr std::int64_t own_segment_from = 10 * mib;
constexpr std::int64_t own_segment_unit = 2 * mib;
constexpr std::int64_t range_bytes = large_segment << 26;  // never full

std::int64_t round_up(std::int64_t value, std::int64_t unit) {
  return (value + unit - 1) / unit * unit;
}

}  // namespace

FreeBlocks::Entry CachingAllocator::key(BlockId id) {
  const Block& block = at(id);
  return {block.stream, id, block.bytes, block.address};
}

CachingAllocator::BlockId CachingAllocator::new_block(const Block& block) {
  if (unused_.empty()) {
    blocks_.push_back(block);
    return static_cast<BlockId>(blocks_.size()) - 1;
  }
  const BlockId id = unused_.back();
  unused_.pop_back();
  at(id) = block;
  return id;
}

// `id` and the block behind it, both outside of the cache, become one.
void CachingAllocator::swallow_next(BlockId id) {
  const BlockId next = at(id).after;
  at(id).bytes += at(next).bytes;
  at(id).after = at(next).after;
  if (at(id).after != none) at(at(id).after).before = id;
  unused_.push_back(next);
}

// Leaves `bytes` to `id`; the rest is a block behind it, outside of the cache.
void CachingAllocator::cut(BlockId id, std::int64_t bytes) {
  Block rest = at(id);
  rest.address += bytes;
  rest.bytes -= bytes;
  rest.before = id;
  const BlockId added = new_block(rest);
  at(id).bytes = bytes;
  at(id).after = added;
  if (rest.after != none) at(rest.after).before = added;
}

// Into the cache, as one with free neighbours.
void CachingAllocator::set_free(BlockId id) {
  at(id).use = Use::free;
  const auto is_free = [this](BlockId other) {
    return other != none && at(other).use == Use::free;
  };
  if (is_free(at(id).after)) {
    cache(at(id)).erase(key(at(id).after));
    swallow_next(id);
  }
  if (is_free(at(id).before)) {
    id = at(id).before;
    cache(at(id)).erase(key(id));
    swallow_next(id);
  }
  cache(at(id)).insert(key(id));
}

void CachingAllocator::make_free(BlockId id) {
  active_ -= Bytes{at(id).bytes};
  set_free(id);
}

// Events of a stream happen in their order, so the first that has not ends the look.
void CachingAllocator::see_events(Time now) {
  if (now < next_done_) return;
  next_done_ = never;
  for (auto& [stream, queue] : awaited_) {
    while (!queue.empty() && queue.front().done <= now) {
      make_free(queue.front().block);
      queue.pop_front();
    }
    if (!queue.empty()) next_done_ = std::min(next_done_, queue.front().done);
  }
}

// The host waits for everything that other streams do with freed blocks.
Time CachingAllocator::synchronise(Time now) {
  for (auto& [stream, queue] : awaited_) {
    for (const Awaited& awaited : queue) {
      now = std::max(now, awaited.done);
      make_free(awaited.block);
    }
    queue.clear();
  }
  next_done_ = never;
  return now;
}

CachingAllocator::BlockId CachingAllocator::find(std::int64_t bytes, std::int32_t stream,
                                                 Pool pool) {
  return free_[pool == Pool::large ? 1 : 0].take(stream, bytes);
}

bool CachingAllocator::takes(std::int64_t bytes) {
  if (limited_ && reserved_.value + bytes > options_.capacity.value) return false;
  reserved_ += Bytes{bytes};
  return true;
}

CachingAllocator::BlockId CachingAllocator::new_segment(std::int64_t bytes, std::int32_t stream,
                                                        Pool pool) {
  std::int64_t segment = small_segment;
  if (pool == Pool::large) {
    segment = bytes < own_segment_from ? large_segment : round_up(bytes, own_segment_unit);
  }
  if (!takes(segment)) return none;
  Block block{.address = next_address_, .bytes = segment, .stream = stream, .pool = pool};
  next_address_ += segment;
  return new_block(block);
}

CachingAllocator::Range& CachingAllocator::range_of(std::int32_t stream, Pool pool) {
  const auto [found, is_new] = ranges_.try_emplace({stream, pool});
  Range& range = found->second;
  if (is_new) {
    range.tail = new_block({.address = next_address_,
                            .bytes = range_bytes,
                            .stream = stream,
                            .pool = pool,
                            .use = Use::unmapped});
    range.gaps.insert({next_address_, range.tail});
    next_address_ += range_bytes;
  }
  return range;
}

// The first of the blocks with the lowest addresses that are free or not mapped, neighbours, and
// together hold `bytes`. Free neighbours are one, so that a run of them has a gap, or was in the
// cache and is large enough by itself.
CachingAllocator::BlockId CachingAllocator::begin_of_run(const Range& range, std::int64_t bytes) {
  const auto open = [this](BlockId id) {
    return id != none && (at(id).use == Use::free || at(id).use == Use::unmapped);
  };
  BlockId best = none;
  for (const auto& [address, gap] : range.gaps) {
    std::int64_t held = at(gap).bytes;
    BlockId begin = gap;
    for (; open(at(begin).before); held += at(begin).bytes) begin = at(begin).before;
    for (BlockId id = at(gap).after; held < bytes && open(id); id = at(id).after) {
      held += at(id).bytes;
    }
    if (held < bytes) continue;
    best = begin;
    break;
  }
  const Block& tail = at(range.tail);
  cache(tail).any_of_at_least(tail.stream, bytes, [&](const FreeBlocks::Entry& large) {
    if (large.address < at(best).address) best = large.block;
    return false;
  });
  return best;
}

// The first `bytes` of the gap `id` are a free block outside of the cache; the rest stays a gap.
void CachingAllocator::map_pages(Range& range, BlockId id, std::int64_t bytes) {
  range.gaps.erase({at(id).address, id});
  if (bytes < at(id).bytes) {
    cut(id, bytes);
    const BlockId rest = at(id).after;
    range.gaps.insert({at(rest).address, rest});
    if (id == range.tail) range.tail = rest;
  }
  at(id).use = Use::free;
}

CachingAllocator::BlockId CachingAllocator::expand(std::int64_t bytes, std::int32_t stream,
                                                   Pool pool) {
  const std::int64_t page = pool == Pool::small ? small_segment : large_segment;
  Range& range = range_of(stream, pool);
  const BlockId begin = begin_of_run(range, bytes);
  std::int64_t missing = 0;
  std::int64_t left = bytes;
  for (BlockId id = begin; left > 0; id = at(id).after) {
    const bool mapped = at(id).use == Use::free;
    if (!mapped) missing += std::min(round_up(left, page), at(id).bytes);
    left -= at(id).bytes;
  }
  if (!takes(missing)) return none;
  if (at(begin).use == Use::free) cache(at(begin)).erase(key(begin));
  for (BlockId id = begin; id == begin || at(begin).bytes < bytes; id = at(begin).after) {
    if (id != begin && at(id).use == Use::free) cache(at(id)).erase(key(id));
    if (at(id).use == Use::unmapped) {
      const std::int64_t wanted = id == begin ? bytes : bytes - at(begin).bytes;
      map_pages(range, id, std::min(round_up(wanted, page), at(id).bytes));
    }
    if (id != begin) swallow_next(begin);
  }
  return begin;
}

CachingAllocator::BlockId CachingAllocator::more(std::int64_t bytes, std::int32_t stream,
                                                 Pool pool) {
  return options_.expandable_segments ? expand(bytes, stream, pool)
                                      : new_segment(bytes, stream, pool);
}

// Whole pages of a free block of a range go back to the device.
void CachingAllocator::unmap_pages(BlockId id) {
  const std::int64_t page = at(id).pool == Pool::small ? small_segment : large_segment;
  const std::int64_t from = round_up(at(id).address, page);
  const std::int64_t to = (at(id).address + at(id).bytes) / page * page;
  if (from >= to) return;
  cache(at(id)).erase(key(id));
  if (to < at(id).address + at(id).bytes) {
    cut(id, to - at(id).address);
    cache(at(id)).insert(key(at(id).after));
  }
  if (from > at(id).address) {
    cut(id, from - at(id).address);
    cache(at(id)).insert(key(id));
    id = at(id).after;
  }
  at(id).use = Use::unmapped;
  ranges_.at({at(id).stream, at(id).pool}).gaps.insert({from, id});
  reserved_ -= Bytes{to - from};
}

// Segments of which nothing is used.
void CachingAllocator::give_back() {
  for (auto& cached : free_) {
    for (const FreeBlocks::Entry& known : cached.all()) {
      const BlockId id = known.block;
      if (options_.expandable_segments) {
        unmap_pages(id);
      } else if (at(id).before == none && at(id).after == none) {
        cached.erase(key(id));
        reserved_ -= Bytes{at(id).bytes};
        unused_.push_back(id);
      }
    }
  }
}

// A segment of its own, or pages at the end of a range: the last of them may not be whole.
Bytes CachingAllocator::most_taken(Bytes bytes) {
  return Bytes{round_up(bytes.value, large_segment) + large_segment};
}

std::vector<CachingAllocator::Piece> CachingAllocator::pieces() const {
  std::vector<bool> exists(blocks_.size(), true);
  for (const BlockId id : unused_) exists[static_cast<std::size_t>(id)] = false;
  std::vector<Piece> out;
  for (std::size_t k = 0; k < blocks_.size(); ++k) {
    const Block& first = blocks_[k];
    if (!exists[k] || first.before != none) continue;
    for (auto id = static_cast<BlockId>(k); id != none; id = at(id).after) {
      if (at(id).use == Use::unmapped) continue;
      out.push_back({Bytes{at(id).address}, Bytes{at(id).bytes}, Bytes{first.address}, first.stream,
                     at(id).use == Use::free ? none : id});
    }
  }
  std::sort(out.begin(), out.end(),
            [](const Piece& a, const Piece& b) { return a.address < b.address; });
  return out;
}

CachingAllocator::Given CachingAllocator::allocate(Bytes bytes, StreamId stream, Time now) {
  TESSERA_ASSERT(bytes.value >= 0, "an allocation has no negative size");
  const std::int64_t wanted = round_up(std::max<std::int64_t>(bytes.value, 1), block_unit);
  const Pool pool = wanted <= small_most ? Pool::small : Pool::large;
  see_events(now);
  Given given{.block = find(wanted, stream.value, pool)};
  if (given.block == none) given.block = more(wanted, stream.value, pool);
  if (given.block == none) {
    ++retries_;
    given.retried = true;
    given.waited_until = synchronise(now);
    give_back();
    given.block = more(wanted, stream.value, pool);
  }
  if (given.block == none) {
    pieces_at_failure_ = pieces();
    given.fits = limited_ = false;
    given.block = more(wanted, stream.value, pool);
  }
  const std::int64_t left = at(given.block).bytes - wanted;
  const bool any_rest = pool == Pool::small || options_.expandable_segments;
  at(given.block).use = Use::used;
  if (any_rest ? left >= block_unit : left > small_most) {
    cut(given.block, wanted);
    set_free(at(given.block).after);
  }
  const Bytes handed{at(given.block).bytes};
  allocated_ += handed;
  active_ += handed;
  return given;
}

void CachingAllocator::release(BlockId block) {
  TESSERA_ASSERT(at(block).use == Use::used, "only handed out blocks can be released");
  allocated_ -= Bytes{at(block).bytes};
  make_free(block);
}

void CachingAllocator::release(BlockId block, StreamId user, Time done) {
  TESSERA_ASSERT(at(block).use == Use::used, "only handed out blocks can be released");
  allocated_ -= Bytes{at(block).bytes};
  at(block).use = Use::awaited;
  auto& queue = awaited_[user.value];
  queue.push_back({done, block});
  next_done_ = std::min(next_done_, queue.front().done);
}

}  // namespace tessera::sim
