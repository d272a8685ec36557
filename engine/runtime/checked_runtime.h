// SPDX-License-Identifier: Apache-2.0
// The common part of every runtime: handles, the op checks, the happens-before check, placement of
// buffers. A backend derives from it and only carries out what was checked.
//
// The idea: public functions are final and check; `carry_*` functions are the backend's. What ranks
// share (allocator, order of streams, access history) exists once per class of ranks that behave
// alike. All of it is kept for the whole world, also where only one rank is carried: so every
// process finds the same ids, the same offsets and the same faults, without asking the others.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "engine/runtime/access_history.h"
#include "engine/runtime/allocator.h"
#include "engine/runtime/buffer_table.h"
#include "engine/runtime/id_table.h"
#include "engine/runtime/memory_ledger.h"
#include "engine/runtime/rank_classes.h"
#include "engine/runtime/stream_order.h"
#include "tessera/runtime.h"
#include "tessera/trace.h"

namespace tessera {

class CheckedRuntime : public virtual Runtime {
 public:
  const RankSet& world() const final { return world_; }
  const RankSet& local_ranks() const final { return local_ranks_; }
  Result<StreamId> create_stream(std::string_view name, StreamRole role) final;
  Result<CommunicatorId> create_communicator(const RankGroups& groups, std::string_view name) final;
  Result<BufferId> allocate(const Allocation& request) final;
  Status release(BufferId buffer, EventId after, const RankSet& where) final;
  Result<EventId> submit(const Op& op) final;
  Status wait(EventId event) final;

  /// Buffers that are still allocated and hold a collective's result that nobody read.
  /// Call at the end of a run. Fails: hazard, naming the first.
  Status check_consumed() const;

 protected:
  struct Stream {
    std::string name;
    StreamRole role;
  };
  struct Communicator {
    std::string name;
    RankGroups groups;
  };
  /// A live buffer of one class of ranks.
  struct Live {
    EventOrderedAllocator::PieceId piece = -1;
    Bytes offset{};       // in its memory's range
    StreamClock ready{};  // the previous occupant of the bytes is gone after this
    AccessHistory history;

    void clear() { history.clear(); }
  };
  struct Buffer {
    std::string name;
    Bytes bytes{};
    Memory memory = Memory::device;
    MemoryClass memory_class = MemoryClass::temporary;
  };
  struct RankState {
    StreamOrder order;
    std::array<EventOrderedAllocator, memory_count> allocators;
    IdTable<BufferId, Live> live;
    MemoryLedger ledger;  // device memory
  };

  CheckedRuntime(RankSet world, RankSet carried);

  /// The backend's side. Requests have been checked; `ranks` of a class share `state`.
  virtual void do_stream(StreamId, const Stream&) {}
  virtual void do_communicator(CommunicatorId, const Communicator&) {}
  virtual Status do_allocate(BufferId, const Allocation&) { return {}; }
  virtual Status do_placement(BufferId, const Allocation&, const RankSet& /*ranks*/,
                              const RankState&) {
    return {};
  }
  virtual void do_release(BufferId, EventId /*after*/, const RankSet& /*ranks*/, const RankState&) {
  }
  virtual Status execute(const Op& op, EventId event) = 0;
  virtual Status do_wait(EventId) { return {}; }

  const Stream& stream(StreamId id) const { return streams_[static_cast<std::size_t>(id.value)]; }
  std::size_t stream_count() const { return streams_.size(); }
  const Communicator& communicator(CommunicatorId id) const {
    return communicators_[static_cast<std::size_t>(id.value)];
  }
  /// REQUIRES: some rank has it.
  const Buffer& buffer(BufferId id) const { return buffers_.at(id); }
  RankClasses<RankState>& classes() { return classes_; }
  const RankClasses<RankState>& classes() const { return classes_; }
  /// What device memory all ranks have used since the last call.
  std::vector<PeakMemory> take_peaks(std::int32_t step);
  /// Events with smaller ids are over for every stream of every rank.
  EventId first_live_event() const;

 private:
  bool known(StreamId id) const {
    return id.valid() && id.value < static_cast<int>(streams_.size());
  }
  // `what` names the request where it is wrong: every operation comes through here.
  template <class What>
  Status check_request(const RankSet& where, StreamId stream, const What& what) const;
  Status check_waits(const Op& op) const;
  Status order_op(const Op& op, EventId event, const RankSet& ranks, RankState& state);
  Status check_access(const Op& op, const Access& access, Index group_size, const Live* live,
                      const RankSet& ranks, const RankState& state) const;
  Index group_size_of(const Op& op) const;
  bool is_live(BufferId id) const;
  bool is_uncertain(EventId event) const;
  Result<EventId> after_everything(StreamId stream, const RankSet& where);

  const RankSet world_;
  const RankSet local_ranks_;
  std::vector<Stream> streams_;
  std::vector<Communicator> communicators_;
  BufferTable<Buffer> buffers_;
  std::int32_t next_event_ = 0;
  RankClasses<RankState> classes_;
  std::vector<Access> accesses_;  // of the operation that is ordered
  std::vector<Live*> accessed_;   // by them, of the ranks that are
};

}  // namespace tessera
