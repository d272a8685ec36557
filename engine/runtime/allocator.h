// SPDX-License-Identifier: Apache-2.0
// The event-ordered allocator: places buffers in one growing range of addresses, the same code over
// virtual addresses in a simulator and over mapped device memory on a GPU.
//
// The idea: a released piece becomes usable for a stream once that stream is known, from recorded
// waits, to run after the release. Order decides, never timing, so a simulated peak is the real
// peak. Best fit over runs of neighbouring usable pieces, lowest address first; the range grows by
// whole pages at its end (expandable segments over reserved virtual memory).
//
//   Bytes offset = allocator.allocate(Bytes{4096}, compute, order);
//   allocator.release(offset, order.position_of(done));
#pragma once

#include <map>

#include "engine/runtime/stream_order.h"
#include "tessera/types.h"

namespace tessera {

inline constexpr Bytes allocation_alignment{256};  // what cudaMalloc and NCCL want
inline constexpr Bytes allocator_page{2 << 20};    // granularity of device memory mappings

class EventOrderedAllocator {
 public:
  struct Placement {
    Bytes offset{};       // from the start of the range
    StreamClock ready{};  // a stream may use the bytes once its clock covers this
  };

  /// REQUIRES: bytes >= 0. A request of 0 bytes takes one aligned piece, so that offsets differ.
  Placement allocate(Bytes bytes, StreamId stream, const StreamOrder& order);
  /// The piece at `offset` may be reused after `after`.
  void release(Bytes offset, Position after);

  Bytes allocated() const { return allocated_; }  // requested bytes handed out
  Bytes reserved() const { return reserved_; }    // pages taken from the device, never returned
  /// Walks all pieces; for tests and assertions. They must tile [0, reserved).
  bool consistent() const;

 private:
  struct Free {
    std::int64_t bytes;
    StreamClock ready{};
    bool settled = true;  // every stream runs after it: `ready` is zero
  };
  struct Used {
    std::int64_t bytes;
    Bytes requested;
    StreamClock ready{};
  };
  using FreeMap = std::map<std::int64_t, Free>;
  struct Run {
    FreeMap::iterator begin;
    std::int64_t bytes = 0;
  };

  void settle(const StreamClock& settled);
  Run find_run(std::int64_t bytes, const StreamClock& clock);
  Run grow(std::int64_t bytes, const StreamClock& clock);

  FreeMap free_;  // offset -> piece; neighbours merge once every stream runs after them
  std::map<std::int64_t, Used> used_;
  Bytes allocated_{};
  Bytes reserved_{};
};

}  // namespace tessera
