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

EventOrderedAllocator::PieceId EventOrderedAllocator::new_piece(const Piece& piece) {
  if (unused_.empty()) {
    pieces_.push_back(piece);
    return static_cast<PieceId>(pieces_.size()) - 1;
  }
  const PieceId id = unused_.back();
  unused_.pop_back();
  at(id) = piece;
  return id;
}

void EventOrderedAllocator::insert_after(List list, Ends& ends, PieceId before, PieceId id) {
  const PieceId after = before == none ? ends.first : (at(before).*list).after;
  at(id).*list = {before, after};
  (before == none ? ends.first : (at(before).*list).after) = id;
  (after == none ? ends.last : (at(after).*list).before) = id;
}

void EventOrderedAllocator::remove(List list, Ends& ends, PieceId id) {
  const auto [before, after] = at(id).*list;
  (before == none ? ends.first : (at(before).*list).after) = after;
  (after == none ? ends.last : (at(after).*list).before) = before;
}

// The nearest free piece before `id`. Looks to both sides: one of them is near.
EventOrderedAllocator::PieceId EventOrderedAllocator::free_before(PieceId id) const {
  PieceId before = at(id).all.before;
  PieceId after = at(id).all.after;
  while (before != none && after != none) {
    if (!at(before).used) return before;
    if (!at(after).used) return at(after).free.before;
    before = at(before).all.before;
    after = at(after).all.after;
  }
  while (before != none && at(before).used) before = at(before).all.before;
  if (before != none) return before;
  while (after != none && at(after).used) after = at(after).all.after;
  return after == none ? none : at(after).free.before;
}

// Clocks only advance: what a stream once covers it covers for ever.
bool EventOrderedAllocator::usable(Piece& piece, StreamId stream, const StreamClock& clock) {
  const std::uint32_t bit = 1U << stream.value;
  if ((piece.usable_by & bit) == 0 && covers(clock, piece.ready)) piece.usable_by |= bit;
  return (piece.usable_by & bit) != 0;
}

// Pieces that every stream runs after need no clock, and then merge with their neighbours. What
// `allocate` finds is the same with and without it, so that it need not be done every time.
void EventOrderedAllocator::merge_reached(const StreamClock& reached_by_all) {
  for (PieceId id = free_.first; id != none; id = at(id).free.after) {
    Piece& piece = at(id);
    if (piece.usable_by != every_stream && covers(reached_by_all, piece.ready)) {
      piece.ready = {};
      piece.usable_by = every_stream;
    }
    const PieceId before = piece.all.before;
    const bool merges = piece.usable_by == every_stream && before != none && !at(before).used &&
                        at(before).usable_by == every_stream;
    if (!merges) continue;
    swallow_next(before, piece.bytes);
    id = before;
  }
  free_after_merging_ = free_count_;
}

// The smallest run of neighbouring free pieces that `clock` covers and that holds `bytes`.
EventOrderedAllocator::Run EventOrderedAllocator::find_run(std::int64_t bytes, StreamId stream,
                                                           const StreamClock& clock) {
  Run best;
  Run run;
  std::int64_t run_end = -1;
  const auto close = [&] {
    if (run.bytes >= bytes && (best.bytes == 0 || run.bytes < best.bytes)) best = run;
  };
  for (PieceId id = free_.first; id != none; id = at(id).free.after) {
    Piece& piece = at(id);
    const bool use = usable(piece, stream, clock);
    if (!use || piece.offset != run_end) {
      close();
      run = {id, 0};
    }
    if (use) run.bytes += piece.bytes;
    run_end = use ? piece.offset + piece.bytes : -1;
  }
  close();
  return best;
}

// Appends whole pages so that a usable run at the end holds `bytes`.
EventOrderedAllocator::Run EventOrderedAllocator::grow(std::int64_t bytes, StreamId stream,
                                                       const StreamClock& clock) {
  Run run;
  for (PieceId id = all_.last; id != none; id = at(id).all.before) {
    if (at(id).used || !usable(at(id), stream, clock)) break;
    run = {id, run.bytes + at(id).bytes};
  }
  const std::int64_t more = round_up(bytes - run.bytes, allocator_page.value);
  Piece end;
  end.offset = reserved_.value;
  end.bytes = more;
  end.usable_by = every_stream;
  const PieceId added = new_piece(end);
  insert_after(&Piece::all, all_, all_.last, added);
  insert_after(&Piece::free, free_, free_.last, added);
  ++free_count_;
  reserved_ += Bytes{more};
  return {run.begin == none ? added : run.begin, run.bytes + more};
}

// The first `bytes` of the free piece behind `id` become a part of `id`.
void EventOrderedAllocator::swallow_next(PieceId id, std::int64_t bytes) {
  const PieceId next = at(id).all.after;
  join(at(id).ready, at(next).ready);
  at(id).bytes += bytes;
  at(next).offset += bytes;
  at(next).bytes -= bytes;
  if (at(next).bytes > 0) return;
  remove(&Piece::all, all_, next);
  remove(&Piece::free, free_, next);
  --free_count_;
  unused_.push_back(next);
}

// Cuts the bytes off the run that begins with the free piece `id`, which is the used piece then.
void EventOrderedAllocator::take(PieceId id, std::int64_t bytes) {
  if (at(id).bytes > bytes) {
    Piece rest = at(id);
    rest.offset += bytes;
    rest.bytes -= bytes;
    const PieceId added = new_piece(rest);
    insert_after(&Piece::all, all_, id, added);
    insert_after(&Piece::free, free_, id, added);
    ++free_count_;
    at(id).bytes = bytes;
  }
  while (at(id).bytes < bytes) {
    swallow_next(id, std::min(bytes - at(id).bytes, at(at(id).all.after).bytes));
  }
  remove(&Piece::free, free_, id);
  --free_count_;
  at(id).used = true;
}

EventOrderedAllocator::Placement EventOrderedAllocator::allocate(Bytes bytes, StreamId stream,
                                                                 const StreamOrder& order) {
  TESSERA_ASSERT(bytes.value >= 0, "an allocation has no negative size");
  const std::int64_t wanted =
      round_up(std::max<std::int64_t>(bytes.value, 1), allocation_alignment.value);
  if (free_count_ > free_after_merging_) merge_reached(order.reached_by_all());
  const StreamClock& clock = order.clock(stream);
  Run run = find_run(wanted, stream, clock);
  if (run.bytes == 0) run = grow(wanted, stream, clock);
  take(run.begin, wanted);
  Piece& taken = at(run.begin);
  taken.requested = bytes;
  allocated_ += bytes;
  return {run.begin, Bytes{taken.offset}, taken.ready};
}

void EventOrderedAllocator::release(PieceId id, Position after) {
  const bool handed_out = id >= 0 && id < static_cast<PieceId>(pieces_.size()) && at(id).used;
  TESSERA_ASSERT(handed_out, "only handed out pieces can be released");
  Piece& piece = at(id);
  // Whoever used the piece ran after its own `ready`, so what follows `after` follows both.
  if (after.stream >= 0) {
    auto& count = piece.ready[static_cast<std::size_t>(after.stream)];
    count = std::max(count, after.count);
  }
  allocated_ -= piece.requested;
  piece.used = false;
  piece.usable_by = piece.ready == StreamClock{} ? every_stream : 0;
  insert_after(&Piece::free, free_, free_before(id), id);
  ++free_count_;
}

bool EventOrderedAllocator::consistent() const {
  std::int64_t at_offset = 0;
  Bytes requested{};
  int free_count = 0;
  PieceId free = free_.first;
  for (PieceId id = all_.first; id != none; id = at(id).all.after) {
    const Piece& piece = at(id);
    if (piece.offset != at_offset || piece.bytes <= 0) return false;
    at_offset += piece.bytes;
    if (piece.used) {
      requested += piece.requested;
      continue;
    }
    if (free != id) return false;  // both lists have one order
    free = piece.free.after;
    ++free_count;
  }
  return free == none && free_count == free_count_ && at_offset == reserved_.value &&
         requested == allocated_;
}

}  // namespace tessera
