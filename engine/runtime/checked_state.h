// SPDX-License-Identifier: Apache-2.0
// The state of a CheckedRuntime, and the checks that need it.
//
// The idea: what ranks share exists once, in three parts that ranks part for different reasons.
// Their order of streams is one until some of them wait for something alone; their memory until
// some of them allocate or release alone; who did what to a buffer is kept once for all, with the
// ranks where it was some. So a thousand owners that each do their part cost as much as their
// parts. All of it is kept for the whole world, also where one rank is local.
#pragma once

#include <array>
#include <deque>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "engine/runtime/access_history.h"
#include "engine/runtime/allocator.h"
#include "engine/runtime/buffer_table.h"
#include "engine/runtime/memory_ledger.h"
#include "engine/runtime/stream_order.h"
#include "engine/values/id_table.h"
#include "engine/values/rank_classes.h"
#include "tessera/checked_runtime.h"

namespace tessera {

struct CheckedRuntime::State {
  using PieceId = EventOrderedAllocator::PieceId;

  /// A buffer that some ranks have.
  struct Live {
    RankSet holders;
    std::size_t place = 0;  // in OfRanks::pieces
    Memory memory = Memory::device;
    StreamClock ready{};  // the previous occupants of its bytes, on any rank, are gone after this
    AccessHistory history;

    void clear() {
      holders = {};
      history.clear();
    }
  };
  /// The memory of ranks that have allocated and released alike.
  struct OfRanks {
    std::array<EventOrderedAllocator, memory_count> allocators;
    std::vector<PieceId> pieces;  // by Live::place
    MemoryLedger ledger;          // device memory

    EventOrderedAllocator& allocator(Memory memory) {
      return allocators[static_cast<std::size_t>(memory)];
    }
    EventOrderedAllocator::Placement placement(const Live& of) const {
      return allocators[static_cast<std::size_t>(of.memory)].placement(pieces[of.place]);
    }
  };
  /// Names a request where it is wrong: every call comes through here, so nobody formats early.
  using Naming = std::function<std::string()>;

  State(RankSet all, RankSet local)
      : world(std::move(all)),
        local_ranks(std::move(local)),
        orders(world, StreamOrder{}),
        memories(world, OfRanks{}) {}

  bool known(StreamId id) const {
    return id.valid() && id.value < static_cast<int>(streams.size());
  }
  bool known(CommunicatorId id) const {
    return id.valid() && id.value < static_cast<int>(communicators.size());
  }
  /// Whether the order of the event was forgotten for some ranks.
  bool is_uncertain(EventId event) const;
  Index group_size_of(const Op& op) const;
  /// Runtime::holders_of.
  using Holders = std::function<std::optional<std::size_t>(StreamId)>;
  /// A stream that was held and is not; one that may be shared when there are no more.
  std::optional<StreamId> given_back(std::string_view name, StreamRole role,
                                     const Holders& holders) const;
  std::optional<StreamId> shared(std::string_view name, StreamRole role,
                                 const Holders& holders) const;
  const StreamOrder& order_of(const RankSet& alike) const { return orders.of(alike.first()).state; }
  Live& add_live(BufferId id, const Allocation& request);
  /// Where the buffer lies on `ranks`, whose memory is `memory`.
  Bytes place(Live& held, const Allocation& request, const RankSet& ranks, OfRanks& memory);
  void give_back(const Live& held, const Buffer& buffer, Position after, OfRanks& memory);
  /// `ranks` have given it back.
  void end_live(BufferId id, const RankSet& ranks);

  template <class What>
  Status check_request(const RankSet& where, StreamId stream, const What& what) const;
  /// Handles, sizes and groups of `op`, and that what it waits for was recorded.
  Status check_submitted(const Op& op) const;
  Status check_release(const Buffer& buffer, const Live* live, EventId after, const RankSet& ranks);
  /// Puts `op` into the order of its ranks. Fails: hazard.
  Status order_op(const Op& op, EventId event);
  /// The host waits for `event`.
  void host_wait(EventId event);
  /// Those of `ranks` that ran the op of `event`: for the others it means nothing.
  RankSet ran(EventId event, const RankSet& ranks) const;
  /// Forgets what is over for everybody.
  void prune();
  EventId first_live_event() const;
  /// What that would be after prune(); none: something would be uncertain.
  EventId over_before() const;
  Status check_consumed() const;

  const RankSet world;
  const RankSet local_ranks;
  std::vector<Stream> streams;
  std::vector<Communicator> communicators;
  bool places = true;  // that buffers get
  BufferTable<Buffer> buffers;
  IdTable<BufferId, Live> live;
  std::int32_t next_event = 0;
  RankClasses<StreamOrder> orders;
  RankClasses<OfRanks> memories;  // whose classes are parts of those of orders
  Bytes peak_reserved{};
  CallListener* listener = nullptr;
  std::int32_t step = 0;  // that the listener is in
  EventId quiet;          // after everything, when the program waited for it last

 private:
  Status check_waits(const Op& op) const;
  void separate(const RankSet& ranks);
  void wait(const Op& op);
  Status check_access(const Op& op, const Access& access, Index group_size, const RankSet& ranks,
                      const StreamOrder& order, const Live* live);
  Status check_ready(const Op& op, const Access& access, const RankSet& ranks,
                     const StreamOrder& order, const Live& live);

  std::vector<Access> accesses_;                     // of the operation that is ordered
  std::vector<Live*> accessed_;                      // by them
  std::deque<std::pair<EventId, RankSet>> of_some_;  // events of ops that did not hold for all
  std::vector<std::size_t> places_;                  // of OfRanks::pieces that are not used
  std::size_t place_count_ = 0;
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
