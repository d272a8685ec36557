// SPDX-License-Identifier: Apache-2.0
// The event-ordered allocator: places buffers in one growing range of addresses, the same code over
// virtual addresses in a simulator and over mapped device memory on a GPU.
//
// The idea: a released piece becomes usable for a stream once that stream is known, from recorded
// waits, to run after the release. Order decides, never timing, so a simulated peak is the real
// peak. Best fit over runs of neighbouring usable pieces, lowest address first; the range grows by
// whole pages at its end (expandable segments over reserved virtual memory).
//
// Nothing is searched for: every stream that allocates keeps its usable runs by size (FreeRuns),
// and the pieces that it may not use yet by what it has to reach first (ReleasedPieces).
//
//   const auto placed = allocator.allocate(Bytes{4096}, compute, order);
//   allocator.release(placed.piece, order.position_of(done));
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "engine/runtime/free_runs.h"
#include "engine/runtime/released_pieces.h"
#include "engine/runtime/stream_order.h"
#include "tessera/types.h"

namespace tessera {

inline constexpr Bytes allocation_alignment{256};  // what cudaMalloc and NCCL want
inline constexpr Bytes allocator_page{2 << 20};    // granularity of device memory mappings

class EventOrderedAllocator {
 public:
  using PieceId = std::int32_t;

  struct Placement {
    PieceId piece = -1;   // to release it
    Bytes offset{};       // from the start of the range
    StreamClock ready{};  // a stream may use the bytes once its clock covers this
  };

  /// REQUIRES: bytes >= 0. A request of 0 bytes takes one aligned piece, so that offsets differ.
  Placement allocate(Bytes bytes, StreamId stream, const StreamOrder& order);
  /// `piece`, which `allocate` gave, may be reused after `after`.
  void release(PieceId piece, Position after);

  /// Where `piece`, which is handed out, lies, and when its bytes may be used.
  Placement placement(PieceId piece) const {
    return {piece, Bytes{at(piece).offset}, at(piece).ready};
  }

  /// f(piece, offset, bytes, used, usable) in the order of addresses; usable: `stream`, which has
  /// allocated something, may have it now, if it is not used.
  template <class F>
  void for_each_piece(StreamId stream, F&& f) const {
    for (PieceId id = first_; id != none; id = at(id).after) {
      const Piece& piece = at(id);
      f(id, Bytes{piece.offset}, Bytes{piece.bytes}, piece.used,
        ((piece.usable_by >> stream.value) & 1U) != 0);
    }
  }

  Bytes allocated() const { return allocated_; }  // requested bytes handed out
  Bytes reserved() const { return reserved_; }    // pages taken from the device, never returned
  /// Walks all pieces; for tests and assertions. They must tile [0, reserved).
  bool consistent() const;
  /// How many pieces all calls have looked at: tests hold it against the number of calls.
  std::int64_t visits() const { return visits_; }

 private:
  static constexpr PieceId none = -1;
  static constexpr std::uint32_t every_stream = ~0U;

  struct Piece {
    std::int64_t offset = 0;
    std::int64_t bytes = 0;
    PieceId before = none;  // its neighbours
    PieceId after = none;
    bool used = false;
    std::uint32_t usable_by = 0;  // bits of streams that are known to cover `ready`, if it is free
    std::uint32_t turn = 0;       // how often its place in `pieces_` has been free memory
    Bytes requested{};
    StreamClock ready{};
  };
  using FreePieces = std::map<std::int64_t, PieceId>;
  // Nodes without a place, as steps release what they allocate. Whoever copies makes own ones.
  struct SpareNodes {
    SpareNodes() = default;
    SpareNodes(const SpareNodes&) {}
    SpareNodes(SpareNodes&&) noexcept = default;
    SpareNodes& operator=(const SpareNodes&) { return *this; }
    SpareNodes& operator=(SpareNodes&&) noexcept = default;

    std::vector<FreePieces::node_type> nodes;
  };
  // What a stream that allocates knows of free pieces.
  struct Viewer {
    bool allocates = false;
    FreeRuns runs;            // of pieces with its bit
    ReleasedPieces released;  // those without, and others that are free no more
    std::uint32_t waits = 0;  // StreamOrder::waits() when they were asked last
  };

  Piece& at(PieceId id) { return pieces_[static_cast<std::size_t>(id)]; }
  const Piece& at(PieceId id) const { return pieces_[static_cast<std::size_t>(id)]; }
  PieceId new_piece(std::int64_t offset, std::int64_t bytes);
  void insert_after(PieceId before, PieceId id);
  void drop(PieceId id);
  void add_free(PieceId id);
  void forget_free(FreePieces::iterator place);
  void await(ReleasedPieces& released, std::uint32_t bits);
  template <class F>
  void reach(ReleasedPieces& released, const StreamClock& clock, std::uint32_t bits, F&& reached);
  Viewer& view(StreamId stream, const StreamOrder& order);
  void share(PieceId id);
  void swallow_next(PieceId id, std::int64_t bytes);
  void merge(PieceId id);
  void grow(std::int64_t bytes);
  PieceId take(std::int64_t offset, std::int64_t bytes);

  std::vector<Piece> pieces_;
  std::vector<PieceId> unused_;  // places in `pieces_`
  PieceId first_ = none;
  PieceId last_ = none;
  FreePieces free_;              // by offset
  SpareNodes spare_;             // of free_
  std::vector<Viewer> viewers_;  // by stream
  ReleasedPieces not_reached_by_all_;
  std::uint32_t waits_ = 0;  // StreamOrder::waits() when they were asked last
  Bytes allocated_{};
  Bytes reserved_{};
  std::int64_t visits_ = 0;
};

}  // namespace tessera
