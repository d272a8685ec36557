// SPDX-License-Identifier: Apache-2.0
#include "engine/runtime/allocator.h"

#include <algorithm>
#include <utility>

#include "tessera/assert.h"

namespace tessera {
namespace {

std::int64_t round_up(std::int64_t value, std::int64_t unit) {
  return (value + unit - 1) / unit * unit;
}

// A position of `ready` that `clock` has not reached; of stream -1: it has reached all.
Position first_missing(const StreamClock& ready, const StreamClock& clock) {
  for (std::size_t s = 0; s < ready.size(); ++s) {
    if (ready[s] > clock[s]) return {static_cast<std::int32_t>(s), ready[s]};
  }
  return {};
}

}  // namespace

EventOrderedAllocator::PieceId EventOrderedAllocator::new_piece(std::int64_t offset,
                                                                std::int64_t bytes) {
  if (unused_.empty()) {
    unused_.push_back(static_cast<PieceId>(pieces_.size()));
    pieces_.emplace_back();
  }
  const PieceId id = unused_.back();
  unused_.pop_back();
  Piece piece;
  piece.offset = offset;
  piece.bytes = bytes;
  piece.turn = at(id).turn;
  at(id) = piece;
  return id;
}

void EventOrderedAllocator::insert_after(PieceId before, PieceId id) {
  const PieceId after = before == none ? first_ : at(before).after;
  at(id).before = before;
  at(id).after = after;
  (before == none ? first_ : at(before).after) = id;
  (after == none ? last_ : at(after).before) = id;
}

// The place of a free piece that other pieces have swallowed.
void EventOrderedAllocator::drop(PieceId id) {
  const PieceId before = at(id).before;
  const PieceId after = at(id).after;
  (before == none ? first_ : at(before).after) = after;
  (after == none ? last_ : at(after).before) = before;
  ++at(id).turn;
  unused_.push_back(id);
}

void EventOrderedAllocator::add_free(PieceId id) {
  Piece& piece = at(id);
  piece.used = false;
  piece.usable_by = 0;
  if (spare_.nodes.empty()) {
    free_.emplace(piece.offset, id);
  } else {
    auto node = std::move(spare_.nodes.back());
    spare_.nodes.pop_back();
    node.key() = piece.offset;
    node.mapped() = id;
    free_.insert(std::move(node));
  }
  if (piece.ready == StreamClock{}) {
    share(id);
    return;
  }
  not_reached_by_all_.add({id, piece.turn});
  for (Viewer& viewer : viewers_) {
    if (viewer.allocates) viewer.released.add({id, piece.turn});
  }
}

void EventOrderedAllocator::forget_free(FreePieces::iterator place) {
  constexpr std::size_t most = 1024;
  if (spare_.nodes.size() == most) {
    free_.erase(place);
  } else {
    spare_.nodes.push_back(free_.extract(place));
  }
}

// All free pieces without `bits` wait for whoever they stand for.
void EventOrderedAllocator::await(ReleasedPieces& released, std::uint32_t bits) {
  released.clear();
  for (const auto& [offset, id] : free_) {
    ++visits_;
    if ((at(id).usable_by & bits) != bits) released.add({id, at(id).turn});
  }
}

// reached(id) for pieces without `bits` that `clock` covers now. Clocks only advance: what one
// once covers it covers for ever.
template <class F>
void EventOrderedAllocator::reach(ReleasedPieces& released, const StreamClock& clock,
                                  std::uint32_t bits, F&& reached) {
  // Most of so many are free no more, so that this costs no more than what made them.
  if (released.size() > 2 * free_.size() + 64) await(released, bits);
  released.reach(clock, [&](const ReleasedPieces::Waiting& waiting) -> Position {
    ++visits_;
    const Piece& piece = at(waiting.piece);
    if (piece.turn != waiting.turn || (piece.usable_by & bits) == bits) return {};
    const Position missing = first_missing(piece.ready, clock);
    if (missing.stream < 0) reached(waiting.piece);
    return missing;
  });
}

// What `stream` may use by now. Pieces that were asked wait for other streams, of which nobody
// learns without a wait.
EventOrderedAllocator::Viewer& EventOrderedAllocator::view(StreamId stream,
                                                           const StreamOrder& order) {
  if (viewers_.size() <= stream.index()) viewers_.resize(stream.index() + 1);
  const std::uint32_t bit = 1U << stream.value;
  Viewer& viewer = viewers_[stream.index()];
  if (!viewer.allocates) {
    viewer.allocates = true;
    for (const auto& [offset, id] : free_) {
      if ((at(id).usable_by & bit) != 0) viewer.runs.add(offset, at(id).bytes);
    }
    await(viewer.released, bit);
  }
  const std::uint32_t waits = order.waits();
  if (not_reached_by_all_.has_fresh() || waits_ != waits) {
    waits_ = waits;
    reach(not_reached_by_all_, order.reached_by_all(), every_stream,
          [this](PieceId id) { share(id); });
  }
  if (viewer.released.has_fresh() || viewer.waits != waits) {
    viewer.waits = waits;
    reach(viewer.released, order.clock(stream), bit, [&](PieceId id) {
      at(id).usable_by |= bit;
      viewer.runs.add(at(id).offset, at(id).bytes);
    });
  }
  return viewer;
}

// The free piece `id` needs no clock any more, and merges with neighbours of which that is true.
void EventOrderedAllocator::share(PieceId id) {
  Piece& piece = at(id);
  for (std::size_t s = 0; s < viewers_.size(); ++s) {
    const bool knows = ((piece.usable_by >> s) & 1U) != 0;
    if (viewers_[s].allocates && !knows) viewers_[s].runs.add(piece.offset, piece.bytes);
  }
  piece.ready = {};
  piece.usable_by = every_stream;
  merge(id);
}

void EventOrderedAllocator::merge(PieceId id) {
  const auto shared = [this](PieceId other) {
    return other != none && !at(other).used && at(other).usable_by == every_stream;
  };
  if (shared(at(id).after)) swallow_next(id, at(at(id).after).bytes);
  const PieceId before = at(id).before;
  if (shared(before)) swallow_next(before, at(id).bytes);
}

// The first `bytes` of the free piece behind `id` become a part of `id`.
void EventOrderedAllocator::swallow_next(PieceId id, std::int64_t bytes) {
  ++visits_;
  const PieceId next = at(id).after;
  join(at(id).ready, at(next).ready);
  at(id).bytes += bytes;
  const auto known = free_.find(at(next).offset);
  at(next).offset += bytes;
  at(next).bytes -= bytes;
  if (at(next).bytes > 0) {
    auto moved = free_.extract(known);
    moved.key() = at(next).offset;
    free_.insert(std::move(moved));
    return;
  }
  forget_free(known);
  drop(next);
}

// Appends whole pages.
void EventOrderedAllocator::grow(std::int64_t bytes) {
  const std::int64_t more = round_up(bytes, allocator_page.value);
  const PieceId added = new_piece(reserved_.value, more);
  insert_after(last_, added);
  reserved_ += Bytes{more};
  add_free(added);
}

// Cuts bytes out of the run in which they lie, from a piece's begin on: they are a used piece then.
EventOrderedAllocator::PieceId EventOrderedAllocator::take(std::int64_t offset,
                                                           std::int64_t bytes) {
  const PieceId first = free_.at(offset);
  PieceId next = first;
  for (std::int64_t left = bytes; left > 0; next = at(next).after) {
    const Piece& piece = at(next);
    const std::int64_t cut = std::min(left, piece.bytes);
    for (std::size_t s = 0; s < viewers_.size(); ++s) {
      const bool knows = ((piece.usable_by >> s) & 1U) != 0;
      if (viewers_[s].allocates && knows) viewers_[s].runs.remove(piece.offset, cut);
    }
    left -= cut;
  }
  if (at(first).bytes == bytes) {  // as it is
    forget_free(free_.find(offset));
    ++at(first).turn;
    at(first).used = true;
    return first;
  }
  const PieceId taken = new_piece(offset, 0);
  insert_after(at(first).before, taken);
  at(taken).used = true;
  while (at(taken).bytes < bytes) {
    swallow_next(taken, std::min(bytes - at(taken).bytes, at(at(taken).after).bytes));
  }
  return taken;
}

EventOrderedAllocator::Placement EventOrderedAllocator::allocate(Bytes bytes, StreamId stream,
                                                                 const StreamOrder& order) {
  TESSERA_ASSERT(bytes.value >= 0, "an allocation has no negative size");
  const std::int64_t wanted =
      round_up(std::max<std::int64_t>(bytes.value, 1), allocation_alignment.value);
  const Viewer& viewer = view(stream, order);
  FreeRuns::Run run = viewer.runs.best(wanted);
  if (run.bytes == 0) {
    grow(wanted - viewer.runs.ending_at(reserved_.value).bytes);
    run = viewer.runs.ending_at(reserved_.value);
  }
  const PieceId id = take(run.offset, wanted);
  Piece& taken = at(id);
  taken.requested = bytes;
  allocated_ += bytes;
  return {id, Bytes{taken.offset}, taken.ready};
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
  add_free(id);
}

bool EventOrderedAllocator::consistent() const {
  std::int64_t end = reserved_.value;
  Bytes requested{};
  auto free = free_.rbegin();
  for (PieceId id = last_; id != none; id = at(id).before) {
    const Piece& piece = at(id);
    if (piece.offset + piece.bytes != end || piece.bytes <= 0) return false;
    end = piece.offset;
    if (piece.used) {
      requested += piece.requested;
      continue;
    }
    if (free == free_.rend() || free->first != end || free->second != id) return false;
    ++free;
  }
  return free == free_.rend() && end == 0 && requested == allocated_;
}

}  // namespace tessera
