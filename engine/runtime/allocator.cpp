// SPDX-License-Identifier: Apache-2.0
#include "engine/runtime/allocator.h"

#include <algorithm>

#include "tessera/assert.h"

namespace tessera {
namespace {

std::int64_t round_up(std::int64_t value, std::int64_t unit) {
  return (value + unit - 1) / unit * unit;
}

}  // namespace

// Pieces that every stream runs after need no clock, and then merge with their neighbours.
void EventOrderedAllocator::settle(const StreamClock& settled) {
  auto previous = free_.end();  // a settled one
  for (auto it = free_.begin(); it != free_.end();) {
    Free& piece = it->second;
    if (!piece.settled && covers(settled, piece.ready)) {
      piece.ready = {};
      piece.settled = true;
    }
    if (!piece.settled) {
      previous = free_.end();
    } else if (previous != free_.end() && previous->first + previous->second.bytes == it->first) {
      previous->second.bytes += piece.bytes;
      it = free_.erase(it);
      continue;
    } else {
      previous = it;
    }
    ++it;
  }
}

// The smallest run of neighbouring free pieces that `clock` covers and that holds `bytes`.
EventOrderedAllocator::Run EventOrderedAllocator::find_run(std::int64_t bytes,
                                                           const StreamClock& clock) {
  Run best{free_.end(), 0};
  Run run{free_.end(), 0};
  std::int64_t run_end = -1;
  auto close = [&] {
    if (run.bytes >= bytes && (best.bytes == 0 || run.bytes < best.bytes)) best = run;
  };
  for (auto it = free_.begin(); it != free_.end(); ++it) {
    const bool usable = it->second.settled || covers(clock, it->second.ready);
    if (!usable || it->first != run_end) {
      close();
      run = {it, 0};
    }
    if (!usable) {
      run_end = -1;
      continue;
    }
    run.bytes += it->second.bytes;
    run_end = it->first + it->second.bytes;
  }
  close();
  return best;
}

// Appends whole pages so that a usable run at the end holds `bytes`.
EventOrderedAllocator::Run EventOrderedAllocator::grow(std::int64_t bytes,
                                                       const StreamClock& clock) {
  std::int64_t at_end = 0;
  FreeMap::iterator begin = free_.end();
  for (auto it = free_.end(); it != free_.begin();) {
    --it;
    const std::int64_t expected = reserved_.value - at_end;
    if (it->first + it->second.bytes != expected ||
        !(it->second.settled || covers(clock, it->second.ready)))
      break;
    at_end += it->second.bytes;
    begin = it;
  }
  const std::int64_t more = round_up(bytes - at_end, allocator_page.value);
  auto added = free_.emplace(reserved_.value, Free{more}).first;
  reserved_ += Bytes{more};
  return {begin == free_.end() ? added : begin, at_end + more};
}

EventOrderedAllocator::Placement EventOrderedAllocator::allocate(Bytes bytes, StreamId stream,
                                                                 const StreamOrder& order) {
  TESSERA_ASSERT(bytes.value >= 0, "an allocation has no negative size");
  const std::int64_t wanted =
      round_up(std::max<std::int64_t>(bytes.value, 1), allocation_alignment.value);
  settle(order.settled());
  const StreamClock& clock = order.clock(stream);
  Run run = find_run(wanted, clock);
  if (run.bytes == 0) run = grow(wanted, clock);

  const std::int64_t offset = run.begin->first;
  Used used{wanted, bytes};
  for (std::int64_t left = wanted; left > 0;) {
    auto it = run.begin++;
    join(used.ready, it->second.ready);
    const std::int64_t taken = std::min(left, it->second.bytes);
    if (taken < it->second.bytes) {
      free_.emplace_hint(run.begin, it->first + taken,
                         Free{it->second.bytes - taken, it->second.ready, it->second.settled});
    }
    free_.erase(it);
    left -= taken;
  }
  allocated_ += bytes;
  const Placement placement{Bytes{offset}, used.ready};
  used_.emplace(offset, used);
  return placement;
}

void EventOrderedAllocator::release(Bytes offset, Position after) {
  auto it = used_.find(offset.value);
  TESSERA_ASSERT(it != used_.end(), "only handed out pieces can be released");
  // Whoever used the piece ran after its own `ready`, so what follows `after` follows both.
  StreamClock ready = it->second.ready;
  if (after.stream >= 0) {
    auto& count = ready[static_cast<std::size_t>(after.stream)];
    count = std::max(count, after.count);
  }
  allocated_ -= it->second.requested;
  free_.emplace(offset.value, Free{it->second.bytes, ready, ready == StreamClock{}});
  used_.erase(it);
}

bool EventOrderedAllocator::consistent() const {
  auto free = free_.begin();
  auto used = used_.begin();
  std::int64_t at = 0;
  Bytes requested{};
  while (free != free_.end() || used != used_.end()) {
    if (free != free_.end() && free->first == at) {
      at += (free++)->second.bytes;
    } else if (used != used_.end() && used->first == at) {
      requested += used->second.requested;
      at += (used++)->second.bytes;
    } else {
      return false;
    }
  }
  return at == reserved_.value && requested == allocated_;
}

}  // namespace tessera
