// SPDX-License-Identifier: Apache-2.0
// The trace of a run whose times are measured, on one rank, for all ranks: what follows from times.
//
// The idea: operations, waits and allocations are known when they are submitted (SubmittedTrace),
// the times of all ranks come later. So what was submitted is gone through again with the times.
// Memory and accounts follow from both by the simulator's rules, so nobody sends them.
//
//   replay.play(submitted.take(), times, sink);   // of a step
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <vector>

#include "engine/tracing/clock_pool.h"
#include "engine/tracing/memory_timeline.h"
#include "engine/tracing/step_accounts.h"
#include "engine/tracing/trace_items.h"

namespace tessera {

class TraceReplay {
 public:
  /// When the next timed operation began and ended, in ns since the run's start, by rank; where it
  /// does not hold, anything. Times of a rank's stream ascend.
  using NextTimes = std::function<void(std::span<Time> begin, std::span<Time> end)>;

  explicit TraceReplay(Rank ranks);

  /// Goes on with `items`, in the order in which they were submitted.
  void play(TraceItems items, const NextTimes& next_times, TraceSink& sink);
  /// The run is over: everything was played.
  void finish(TraceSink& sink);

 private:
  struct Stream {
    StreamRole role = StreamRole::compute;
    Clock clock;        // end of its last op
    Clock collectives;  // end of those that its ops waited for; null: it computes or communicates
    bool used = false;
  };
  struct Ended {
    Clock clock;             // null: of a wait or a mark, which take no time
    Clock collectives = {};  // end of those that it is or waited for; null: it computes
  };

  Stream& stream(StreamId id) { return streams_[id.index()]; }
  const Ended* find(std::int32_t op) const;
  Clock where_it_holds(const TimedOp& op, std::span<const Time> times, const Clock& lowest);
  Clock collectives_of(const WaitedOps::Ids& ops, const RankSet& where, const Clock& since);
  void stand_still(const WaitedOps::Ids& ops, const RankSet& where, const Clock& begin,
                   const Clock& end);
  Clock meet(const TimedOp& op, const Clock& begin, const Clock& end);
  /// Those of `ops` that are remembered. Valid until the next call.
  const std::vector<const Ended*>& ended_of(const WaitedOps::Ids& ops);
  void send_spans(const TimedOp& op, const Clock& begin, const Clock& ready, const Clock& end,
                  TraceSink& sink);
  void account_gap(const Clock& begin, const Clock& end, bool blocking);
  void end_compute(const WaitedOps::Ids& waits);
  void add(const TracedStream& added);
  void add(const TracedGroups& added) { groups_.emplace(added.id, added.groups); }
  void took(const TimedOp& op, TraceSink& sink);
  void keep(const TimedOp& op, Ended ended);
  void change(const MemoryChange& change);
  void close(const StepEnd& step, TraceSink& sink);
  Time horizon(Rank rank) const;

  const Rank ranks_;
  const RankSet everyone_;
  ClockPool pool_;
  std::vector<Stream> streams_;
  StreamId compute_;  // the first, whose end is a step's end
  std::map<CommunicatorId, RankGroups> groups_;
  std::deque<Ended> ended_;  // ended_[k] has id first_ended_ + k
  std::int32_t first_ended_ = 0;
  // The last answer of ended_of: neighbours wait for the same operations.
  WaitedOps::Ids last_ops_;
  std::vector<const Ended*> last_ended_;
  std::vector<Time> begins_, ends_;  // of the next operation
  std::vector<Rank> span_ranks_;     // of the youngest spans, as the next three
  std::vector<Time> span_begins_, span_readies_, span_ends_;
  StepAccounts accounts_;
  MemoryTimeline memory_;
};

}  // namespace tessera
