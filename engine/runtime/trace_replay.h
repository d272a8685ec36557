// SPDX-License-Identifier: Apache-2.0
// The trace of a run whose times are measured, on one rank, for all ranks.
//
// The idea: operations, waits and allocations are known when they are submitted, the times of all
// ranks come later. So what was submitted is kept as a list, and gone through again with the times.
// Memory and accounts follow from both by the simulator's rules, so nobody sends them.
//
//   replay.submit(op, event, first_live);             // its row goes to the sink at once
//   replay.op_took(begin, end);                       // later, in the same order, by rank
#pragma once

#include <deque>
#include <map>
#include <string_view>
#include <variant>
#include <vector>

#include "engine/runtime/clock_pool.h"
#include "engine/runtime/memory_timeline.h"
#include "engine/runtime/step_accounts.h"
#include "engine/runtime/traced_buffers.h"
#include "engine/runtime/waited_ops.h"
#include "tessera/runtime.h"

namespace tessera {

class TraceReplay {
 public:
  TraceReplay(TraceSink& sink, Rank ranks);

  // In the order of the calls of a Runtime.
  void add_stream(StreamId id, std::string_view name, StreamRole role);
  void add_communicator(CommunicatorId id, std::string_view name, const RankGroups& groups);
  /// `algorithm`: how a collective is carried out, if that is known.
  void submit(const Op& op, EventId event, EventId first_live, std::string_view algorithm = {});
  void host_wait(EventId event) { waited_.host_wait(event); }
  void allocate(BufferId id, const Allocation& request);
  /// `end`: one past its last byte, of `ranks`.
  void place(BufferId id, const Allocation& request, const RankSet& ranks, Bytes end);
  void release(BufferId id, MemoryClass memory_class, Bytes bytes, EventId after,
               const RankSet& ranks);
  void close_step(std::int32_t step, std::vector<PeakMemory> peaks);

  /// The next timed operation, in ns since the run's start, by rank; where it does not hold,
  /// anything. Times of a rank's stream ascend.
  void op_took(std::span<const Time> begin, std::span<const Time> end);
  /// All times of what was submitted before the last `close_step` have been told.
  void settle();
  /// The run is over: everything was told.
  void finish();

  TraceSink& sink() { return sink_; }

 private:
  struct TimedOp {
    std::int32_t id = 0;
    OpKind kind = OpKind::compute;
    StreamId stream;
    CommunicatorId communicator;
    RankSet where;
    WaitedOps::Ids waits;
    EventId first_live;
  };
  struct MemoryChange {
    std::int32_t buffer = 0;  // its row
    MemoryClass memory_class = MemoryClass::temporary;
    Bytes delta{};
    Bytes address_end{};
    RankSet ranks;
    StreamId stream;     // of an allocation
    WaitedOps::Ids ops;  // it happens when they are over; null: long ago
  };
  struct StepEnd {
    std::int32_t step = 0;
    std::vector<PeakMemory> peaks;
    WaitedOps::Ids ops;
  };
  struct Stream {
    StreamRole role = StreamRole::compute;
    Clock clock;  // end of its last op
    bool used = false;
  };
  struct Ended {
    std::int32_t id = 0;
    Clock clock;
    bool communication = false;
  };

  Stream& stream(StreamId id) { return streams_[static_cast<std::size_t>(id.value)]; }
  const Ended* find(std::int32_t op) const;
  Clock where_it_holds(const TimedOp& op, std::span<const Time> times, const Clock& lowest);
  Clock blocked_until(const TimedOp& op, const Clock& since, const Clock& begin);
  Clock meet(const TimedOp& op, const Clock& begin, const Clock& end);
  /// Those of `ops` that are remembered. Valid until the next call.
  const std::vector<const Ended*>& ended_of(const WaitedOps::Ids& ops);
  void send_spans(const TimedOp& op, const Clock& begin, const Clock& ready, const Clock& end);
  void account_gap(const Clock& begin, const Clock& end, bool blocking);
  void end_compute(const WaitedOps::Ids& waits);
  void replay(const MemoryChange& change);
  void replay(StepEnd& step);
  Time horizon(Rank rank) const;

  TraceSink& sink_;
  const Rank ranks_;
  ClockPool pool_;
  WaitedOps waited_;
  std::vector<Stream> streams_;
  StreamId compute_;  // the first, whose end is a step's end
  std::map<CommunicatorId, RankGroups> groups_;
  std::deque<std::variant<TimedOp, MemoryChange, StepEnd>> submitted_;
  std::deque<Ended> ended_;  // ascending
  // What was asked for last: neighbours wait for the same operations.
  WaitedOps::Ids last_ops_;
  std::vector<const Ended*> last_ended_;
  std::vector<Rank> span_ranks_;  // of the youngest spans, as the next three
  std::vector<Time> span_begins_, span_readies_, span_ends_;
  StepAccounts accounts_;
  TracedBuffers buffers_;
  MemoryTimeline memory_;
};

}  // namespace tessera
