// SPDX-License-Identifier: Apache-2.0
// The backend behind LockstepRuntime: clocks of all ranks as arrays, one pass per operation.
//
// Files: this class's timing in lockstep_backend.cpp, what it tells the trace in
// lockstep_trace.cpp, operations of the program and steps that repeat in lockstep_steps.cpp.
#pragma once

#include <deque>
#include <functional>
#include <limits>
#include <optional>
#include <span>

#include "engine/tracing/clock_kernels.h"
#include "engine/tracing/clock_pool.h"
#include "engine/tracing/memory_timeline.h"
#include "engine/tracing/step_accounts.h"
#include "engine/tracing/traced_buffers.h"
#include "engine/tracing/waited_ops.h"
#include "sim/host/host_clock.h"
#include "sim/lockstep/contention.h"
#include "sim/lockstep/numeric_store.h"
#include "sim/lockstep/step_calls.h"
#include "sim/memory/cached_memory.h"
#include "tessera/sim/lockstep_runtime.h"

namespace tessera::sim {

class LockstepBackend final : public LockstepRuntime {
 public:
  explicit LockstepBackend(const LockstepOptions& options);

  Status finish() override;
  const std::string& out_of_memory() const override { return out_of_memory_; }
  std::int64_t cache_returns() const override { return cache_returns_; }
  Bytes peak_device_memory() const override {
    return cached_ ? cached_->highest() : peak_reserved();
  }
  std::int64_t op_ranks() const override { return op_ranks_; }
  bool step_repeats() override;
  Status repeat_step() override;

  Processor processor() const override { return options_.processor; }
  Result<PerRank<float>> read(const View& scalar) override;
  PerRank<Time> now() const override;

 private:
  // Something that a stream's next op waits for.
  struct Pending {
    Clock clock;
    bool communication;
  };
  struct StreamState {
    Clock clock;  // end of its last op, and of what it waited for since
    std::vector<Pending> pending;
    Clock collectives;  // end of those that it waited for; null: of none, or it computes
  };
  // When an event happens: the latest of `clock` and `also`.
  struct EventTime {
    Clock clock;
    std::vector<Pending> also;
    bool communication;
    StreamId stream;  // of its op
  };
  struct CommunicatorState {
    std::vector<CollectiveShape> shapes;  // by group; one entry if all groups look alike
    std::vector<double> slowness;         // likewise, of their links
    Clock clock;                          // end of its last collective
    StreamId last_stream;
  };
  // Begin and end of a timed op on all ranks; a collective's data moves in the last `cost`.
  struct Timing {
    Clock begin, end;
    std::span<const Time> costs;  // OpCosts::groups
  };
  /// Makes the calls of a step that repeats.
  struct Repetition {
    LockstepBackend& backend;
    RequestCall* latest = nullptr;

    Status operator()(OpCall& call);
    Status operator()(RequestCall& call);
    Status operator()(PlaceCall& call);
    Status operator()(ReleaseCall& call);
    Status operator()(AwaitCall& call);
    Status operator()(ReadCall& call);
  };
  /// Whether a stream waits for an event anyway, on a rank.
  using WaitsFor = std::function<bool(StreamId, Rank)>;

  Status stream_created(StreamId, const Stream&) override;
  Status communicator_created(CommunicatorId, const Communicator&) override;
  Status buffer_requested(BufferId, const Allocation&) override;
  Status buffer_placed(BufferId, const Allocation&, const RankSet&, const Placement&) override;
  void buffer_released(BufferId, EventId after, const RankSet&) override;
  Status execute(const Op& op, EventId event) override;
  Status await_event(EventId event) override;

  StreamState& state(StreamId id) { return streams_[id.index()]; }
  CommunicatorState& state(CommunicatorId id) { return communicators_[id.index()]; }
  std::int64_t ranks() const { return options_.world_size; }
  const EventTime* find(EventId event) const;
  void forget_events(EventId live);

  // Calls: of the program, or of a step that repeats.
  OpCosts costs_of(const Op& op) const;
  void carry_out(const Op& op, EventId event, const OpCosts& costs, EventId live);
  void requested(BufferId id, const Allocation& request);
  Status placed(BufferId id, const Allocation& request, const RankSet& ranks,
                const Placement& placement);
  void released(BufferId id, const Buffer& buffer, EventId after, const RankSet& ranks,
                const WaitsFor& waits);
  void awaited(EventId event);
  void number_read();
  void record(const Op& op, EventId event, const OpCosts& costs);
  EventId if_live(EventId event) const;

  // Timing.
  EventTime reached(StreamId stream) const;  // when it has come to what it does next
  static void wait_for(StreamState& waiting, const EventTime& event);
  void collect_waits(const Op& op);
  Clock resolve(StreamId stream);  // the stream's clock once it has waited
  Clock join(const Clock& a, const Clock& b);
  Clock run_for(const Op& op, EventId event, const Clock& start, Time duration);
  Jitter jitter_of(EventId event, Time duration) const;
  Timing run_kernel(const Op& op, EventId event, Time duration);
  Time measured(const Op& op, Time cost) const;
  void occupy_thread(const Clock& end);
  Timing run_collective(const Op& op, const OpCosts& costs);
  Clock meet_all(const Clock& arrival, Time cost);
  Clock meet_in_groups(const Op& op, const Timing& timing);
  Status do_numbers(const Op& op);

  // Steps and trace.
  void enter_step(std::int32_t step);
  void close_step();
  std::vector<PeakMemory> peaks_of_step();
  void close_memory(const std::vector<PeakMemory>& peaks);
  CachedMemory::Taken take(BufferId id, const Allocation& request, const RankSet& ranks,
                           const MemoryUse& device);
  void tell_out_of_memory(BufferId id, const Allocation& request, Rank rank,
                          const MemoryUse& device, Bytes reserved);
  void trace_shortage(BufferId id, const Allocation& request, Rank rank);
  void trace_op(const Op& op, EventId event);
  void trace_spans(const Op& op, EventId event, const Timing& timing);
  // Rows of buffers are there for the samples that refer to them.
  bool traces_buffers() const { return options_.sink != nullptr && !memory_.ranks().empty(); }
  Time time_at(const EventTime* event, Rank rank) const;
  Time horizon(Rank rank) const;
  /// When `rank` reaches what the stream does next.
  Time next_begin(StreamId stream, Rank rank) const;
  /// Of the streams that have done anything the least of what `time_of(stream)` says; 0: of none.
  template <class TimeOf>
  Time earliest(const TimeOf& time_of) const;

  const LockstepOptions options_;
  ClockPool pool_;
  std::vector<StreamState> streams_;
  Clock thread_;  // one_thread: when it is free
  std::vector<CommunicatorState> communicators_;
  std::deque<EventTime> events_;  // events_[k] has id first_event_ + k
  std::int32_t first_event_ = 0;
  std::vector<std::uint32_t> rank_keys_;
  std::uint32_t seed_key_ = 0;
  std::vector<std::int32_t> slowness_;  // by rank; empty: all alike
  HostClock host_;
  Contention contention_;

  WaitedOps waited_;  // kept for the trace only
  StepAccounts accounts_;
  TracedBuffers traced_;
  struct {
    std::vector<Rank> ranks;
    std::vector<Time> begin, ready, end;
  } spans_;  // of the operation that is told
  MemoryTimeline memory_;
  NumericStore numbers_;
  std::int32_t step_ = 0;
  bool step_open_ = false;
  std::optional<CachedMemory> cached_;  // none: `reserved` is what the engine's accounts say
  std::string out_of_memory_;
  std::int64_t cache_returns_ = 0;
  std::int64_t op_ranks_ = 0;

  bool keeps_calls_ = false;
  StepCalls calls_, calls_before_;  // of this step, and of the last one
  std::int32_t own_steps_ = std::numeric_limits<std::int32_t>::max();  // later ones repeat
  std::vector<PeakMemory> peaks_;                                      // of the last own step
  EventId live_;                                                       // of repeated steps
};

}  // namespace tessera::sim
