// SPDX-License-Identifier: Apache-2.0
// The backend behind ProcessRuntime: queues of operations that wait for their turn.
//
// The idea: a stream runs its operations in order, an operation starts when those it waits for are
// done, and collectives of one communicator run one after another, in the order in which they were
// submitted, which is the same on all ranks. No other order is imposed, so communication goes on
// while modules run.
#pragma once

#include <array>
#include <deque>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "engine/backends/host/collective_task.h"
#include "engine/backends/host/done_events.h"
#include "engine/backends/host/hang_guard.h"
#include "engine/backends/host/host_memory.h"
#include "engine/backends/host/host_trace.h"
#include "engine/backends/host/rank_watch.h"
#include "engine/swap/swap_store.h"
#include "engine/values/id_table.h"
#include "tessera/host_runtime.h"

namespace tessera {

class HostBackend final : public ProcessRuntime {
 public:
  HostBackend(std::unique_ptr<Transport> transport, const HostOptions& options);
  ~HostBackend() override;
  Status setup();

  Status poll() override;
  Status finish() override;
  void give_up(const Status& why) override;
  Result<std::vector<std::string>> exchange(const std::string& own) override;

  Result<PerRank<float>> read(const View& scalar) override;
  PerRank<Time> now() const override { return PerRank<Time>(time()); }

 private:
  struct Queued {
    EventId event;
    Op op;  // its `after` is empty, see below
    std::vector<EventId> after;
    std::int64_t number = 0;  // a collective's number in the log
    bool started = false;
    std::unique_ptr<RunningTask> running;
    std::int64_t trace_place = -1;
  };
  // The values that ranks exchange in `meet`.
  struct Meeting {
    std::uint64_t hash = 0;  // hash of all calls so far
    float value = 0;
    std::uint32_t padding = 0;
  };
  // The communicator of all ranks that the backend itself uses.
  static constexpr CommunicatorId control{std::numeric_limits<std::int32_t>::max()};
  struct Place {
    Memory memory = Memory::device;
    Bytes offset{};
  };

  Status stream_created(StreamId, const Stream&) override;
  Status communicator_created(CommunicatorId, const Communicator&) override;
  Status buffer_requested(BufferId, const Allocation&) override;
  Status buffer_placed(BufferId, const Allocation&, const RankSet&, const Placement&) override;
  void buffer_released(BufferId, EventId, const RankSet&) override;
  Status execute(const Op& op, EventId event) override;
  Status await_event(EventId event) override;

  Time time() const { return options_.clock ? options_.clock() : 0; }
  bool is_done(EventId event) const { return done_.happened(event); }

  // The queues.
  Result<bool> progress();
  Result<bool> advance(std::deque<Queued>& queue);
  bool may_start(const Queued& next) const;
  Status wait_until(const std::function<bool()>& done, const std::string& what);
  Status overdue(const std::string& what);
  void idle();
  void free_place(BufferId id);
  Status drain();

  // All ranks at once.
  Status prepare();
  Status fail(const Status& why);
  Status complete(Transport::Request request, const std::string& what);
  Status gather(std::span<const std::byte> own, std::span<std::byte> all, const std::string& what);
  Result<std::vector<Meeting>> meet(std::string_view what, std::string_view name, float value = 0);
  const Queued* oldest_waiting() const;

  // The trace.
  void enter_step(std::int32_t step);
  Status end_trace();

  // Carrying out one operation.
  static bool takes_no_turns(const Op& op);
  bool may_run_now(const Op& op) const;
  Status run_now(const Op& op, EventId event, std::int64_t place);
  Status run(const Op& op);
  void ended(EventId event, std::int64_t place);
  Result<bool> start(Queued& next);
  std::span<std::byte> bytes(const View& view, Index index) const;
  void copy(const Copy& copy) const;
  std::unique_ptr<RunningTask> start_files(const Copy& copy);  // on the way to or from NVMe
  Status compute(const Compute& compute) const;
  CollectiveCall call(CommunicatorId id, const View& input, const View& output) const;
  Result<std::unique_ptr<CollectiveTask>> start_collective(const Op& op);

  const std::unique_ptr<Transport> transport_;
  const HostOptions options_;
  RankWatch watch_;
  HangGuard guard_;
  const Rank rank_;
  std::array<HostMemory, 2> memory_;  // device, pinned_host
  SwapStore swapped_;
  IdTable<BufferId, Place> places_;
  std::deque<std::pair<EventId, BufferId>> leaving_;  // released, but in use until an event
  std::vector<std::deque<Queued>> queues_;            // by StreamId
  std::size_t queued_ = 0;                            // in all of them
  std::vector<std::size_t> turns_;                    // streams, those that communicate first
  std::vector<EventId> last_;                         // by StreamId: its last submitted operation
  std::map<CommunicatorId, std::deque<EventId>> unfinished_;  // collectives
  DoneEvents done_;
  Status failure_;  // the first; it is final
  bool finished_ = false;
  bool in_body_ = false;
  std::unique_ptr<TraceLink> trace_link_;
  std::unique_ptr<HostTrace> trace_;  // or null
};

/// A runtime for one rank of the transport's world.
Result<std::unique_ptr<ProcessRuntime>> make_host_runtime(std::unique_ptr<Transport> transport,
                                                          const HostOptions& options);

}  // namespace tessera
