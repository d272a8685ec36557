// SPDX-License-Identifier: Apache-2.0
// The event-ordered allocator: places buffers in one growing range of addresses, the same code over
// virtual addresses in a simulator and over mapped device memory on a GPU.
//
// The idea: a released piece becomes usable for a stream once that stream is known, from recorded
// waits, to run after the release. Order decides, never timing, so a simulated peak is the real
// peak. Best fit over runs of neighbouring usable pieces, lowest address first; the range grows by
// whole pages at its end (expandable segments over reserved virtual memory).
//
//   const auto placed = allocator.allocate(Bytes{4096}, compute, order);
//   allocator.release(placed.piece, order.position_of(done));
#pragma once

#include <cstdint>
#include <vector>

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

  Bytes allocated() const { return allocated_; }  // requested bytes handed out
  Bytes reserved() const { return reserved_; }    // pages taken from the device, never returned
  /// Walks all pieces; for tests and assertions. They must tile [0, reserved).
  bool consistent() const;

 private:
  static constexpr PieceId none = -1;
  static constexpr std::uint32_t every_stream = ~0U;

  // Neighbours in a list that is in the order of addresses.
  struct Links {
    PieceId before = none;
    PieceId after = none;
  };
  struct Piece {
    std::int64_t offset = 0;
    std::int64_t bytes = 0;
    Links all;
    Links free;  // of a piece that is not used
    bool used = false;
    std::uint32_t usable_by = 0;  // bits of streams that are known to cover `ready`, if it is free
    Bytes requested{};
    StreamClock ready{};
  };
  using List = Links Piece::*;
  // A list's ends.
  struct Ends {
    PieceId first = none;
    PieceId last = none;
  };
  struct Run {
    PieceId begin = none;
    std::int64_t bytes = 0;
  };

  Piece& at(PieceId id) { return pieces_[static_cast<std::size_t>(id)]; }
  const Piece& at(PieceId id) const { return pieces_[static_cast<std::size_t>(id)]; }
  static bool usable(Piece& piece, StreamId stream, const StreamClock& clock);
  PieceId new_piece(const Piece& piece);
  void insert_after(List list, Ends& ends, PieceId before, PieceId id);
  void remove(List list, Ends& ends, PieceId id);
  PieceId free_before(PieceId id) const;
  void merge_reached(const StreamClock& reached_by_all);
  Run find_run(std::int64_t bytes, StreamId stream, const StreamClock& clock);
  Run grow(std::int64_t bytes, StreamId stream, const StreamClock& clock);
  void swallow_next(PieceId id, std::int64_t bytes);
  void take(PieceId id, std::int64_t bytes);

  std::vector<Piece> pieces_;
  std::vector<PieceId> unused_;  // places in `pieces_`
  Ends all_;
  Ends free_;  // neighbours merge once every stream runs after them
  int free_count_ = 0;
  int free_after_merging_ = 0;
  Bytes allocated_{};
  Bytes reserved_{};
};

}  // namespace tessera
