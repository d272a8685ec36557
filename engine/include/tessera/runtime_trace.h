// SPDX-License-Identifier: Apache-2.0
// Records what a runtime of your own did: rows of operations, spans, steps and memory.
//
// The idea: what was asked for is known from the calls, which this listener hears. All that it has
// to be given are times. Waiting, exposed communication and the memory of every moment follow from
// both, by the same rules as in traces of GPUs and of the simulator.
//
//   RuntimeTrace trace(sink, ranks);            // the runtime: set_listener(trace);
//   trace.ran(event, begin, end);               // in execute, or later, once for each operation
//   TESSERA_TRY(runtime.finish());
#pragma once

#include <memory>

#include "tessera/checked_runtime.h"
#include "tessera/trace.h"

namespace tessera {

class RuntimeTrace final : public CallListener {
 public:
  /// `sink` gets everything but `begin` and `unit`, which are the caller's to say, for all ranks
  /// from 0 to `ranks` - 1. It must outlive this.
  RuntimeTrace(TraceSink& sink, Rank ranks);
  ~RuntimeTrace() override;

  /// The operation of `event` ran from `begin` to `end`, in ns since the run's start, on all ranks
  /// for which it holds. A step is sent when all operations of it have times. Waits and marks take
  /// none: a call for one of them is ignored. REQUIRES: it was submitted, and has no times yet;
  /// times of a rank's stream ascend.
  void ran(EventId event, Time begin, Time end);
  /// As above, with times by rank; those of ranks for which it does not hold are ignored.
  void ran(EventId event, std::span<const Time> begin, std::span<const Time> end);

  void stream_created(StreamId id, const CheckedRuntime::Stream& stream) override;
  void communicator_created(CommunicatorId id,
                            const CheckedRuntime::Communicator& communicator) override;
  void buffer_requested(BufferId id, const Allocation& request) override;
  void buffer_placed(BufferId id, const Allocation& request, const RankSet& ranks,
                     Bytes offset) override;
  void buffer_released(BufferId id, const CheckedRuntime::Buffer& buffer, EventId after,
                       const RankSet& ranks) override;
  void op_submitted(const Op& op, EventId event, EventId first_live) override;
  void event_awaited(EventId event) override;
  void step_ended(std::int32_t step, std::vector<PeakMemory> peaks) override;
  void run_ended() override;

 private:
  struct State;
  const std::unique_ptr<State> state_;
};

}  // namespace tessera
