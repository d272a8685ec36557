// SPDX-License-Identifier: Apache-2.0
// The state of a CheckedRuntime, and the checks that need it.
//
// The idea: what ranks share (allocator, order of streams, access history) exists once per class of
// ranks that behave alike. All of it is kept for the whole world, also where one rank is local.
#pragma once

#include <array>
#include <functional>
#include <string>
#include <vector>

#include "engine/runtime/access_history.h"
#include "engine/runtime/allocator.h"
#include "engine/runtime/buffer_table.h"
#include "engine/runtime/id_table.h"
#include "engine/runtime/memory_ledger.h"
#include "engine/runtime/rank_classes.h"
#include "engine/runtime/stream_order.h"
#include "tessera/checked_runtime.h"

namespace tessera {

struct CheckedRuntime::State {
  /// A live buffer of one class of ranks.
  struct Live {
    EventOrderedAllocator::PieceId piece = -1;
    Bytes offset{};       // in its memory's range
    StreamClock ready{};  // the previous occupant of the bytes is gone after this
    AccessHistory history;

    void clear() { history.clear(); }
  };
  struct OfRanks {
    StreamOrder order;
    std::array<EventOrderedAllocator, memory_count> allocators;
    IdTable<BufferId, Live> live;
    MemoryLedger ledger;  // device memory

    EventOrderedAllocator& allocator(Memory memory) {
      return allocators[static_cast<std::size_t>(memory)];
    }
  };
  /// Names a request where it is wrong: every call comes through here, so nobody formats early.
  using Naming = std::function<std::string()>;

  State(RankSet all, RankSet local)
      : world(std::move(all)), local_ranks(std::move(local)), classes(world, OfRanks{}) {}

  bool known(StreamId id) const {
    return id.valid() && id.value < static_cast<int>(streams.size());
  }
  bool known(CommunicatorId id) const {
    return id.valid() && id.value < static_cast<int>(communicators.size());
  }
  /// Whether some rank has the buffer.
  bool is_live(BufferId id) const;
  /// Whether the order of the event was forgotten for some ranks.
  bool is_uncertain(EventId event) const;
  Index group_size_of(const Op& op) const;

  template <class What>
  Status check_request(const RankSet& where, StreamId stream, const What& what) const;
  /// Handles, sizes and groups of `op`, and that what it waits for was recorded.
  Status check_submitted(const Op& op) const;
  Status check_release(const Buffer& buffer, const Live* live, EventId after, const RankSet& ranks,
                       const OfRanks& state) const;
  /// Puts `op` into the order of its ranks. Fails: hazard.
  Status order_op(const Op& op, EventId event, const RankSet& ranks, OfRanks& state);
  Status check_consumed() const;

  const RankSet world;
  const RankSet local_ranks;
  std::vector<Stream> streams;
  std::vector<Communicator> communicators;
  BufferTable<Buffer> buffers;
  std::int32_t next_event = 0;
  RankClasses<OfRanks> classes;
  Bytes peak_reserved{};
  CallListener* listener = nullptr;
  std::int32_t step = 0;         // that the listener is in
  std::vector<Access> accesses;  // of the operation that is ordered

 private:
  Status check_waits(const Op& op) const;
  Status check_access(const Op& op, const Access& access, Index group_size, const Live* live,
                      const RankSet& ranks, const OfRanks& state) const;

  std::vector<Live*> accessed_;  // by the accesses, of the ranks that are ordered
};

template <class What>
Status CheckedRuntime::State::check_request(const RankSet& where, StreamId stream,
                                            const What& what) const {
  const auto wrong = [&](const char* why, const std::string& which) {
    return Status(Code::invalid_argument, what() + why + which);
  };
  if (where.empty()) return wrong(": holds for no rank", "");
  if (!world.covers(where)) {
    return wrong(": the run has no ranks ", where.minus(world).to_string());
  }
  if (!known(stream)) return wrong(": there is no stream ", std::to_string(stream.value));
  return {};
}

}  // namespace tessera
