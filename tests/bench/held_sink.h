// SPDX-License-Identifier: Apache-2.0
// A recording with planted faults: what ranks hold, and how long they compute.
#pragma once

#include <functional>
#include <utility>
#include <vector>

#include "tessera/trace.h"

namespace tessera::bench {

/// What a rank holds at the peak of a step, instead of what it does.
using Held = std::function<Bytes(std::int32_t step, Rank rank, Bytes peak)>;
/// How long a rank computes in a step, instead of how long it does.
using Computed = std::function<Time(std::int32_t step, Rank rank, Time compute)>;

/// Passes a recording on, but for peaks of memory and times of computing.
class HeldSink final : public TraceSink {
 public:
  HeldSink(TraceSink& to, Held held, Computed computed)
      : to_(to), held_(std::move(held)), computed_(std::move(computed)) {}

  void begin(const TraceRun& run) override { to_.begin(run); }
  void stream(const TraceStream& stream) override { to_.stream(stream); }
  void communicator(const TraceCommunicator& c) override { to_.communicator(c); }
  void unit(const TraceUnit& unit) override { to_.unit(unit); }
  void op(const TraceOp& op) override { to_.op(op); }
  void spans(const SpanBatch& spans) override { to_.spans(spans); }
  void kernel(const TraceKernel& kernel) override { to_.kernel(kernel); }
  void buffer(const TraceBuffer& buffer) override { to_.buffer(buffer); }
  void memory(std::span<const MemorySample> samples) override { to_.memory(samples); }
  void peak_memory(const PeakMemory& peak) override { to_.peak_memory(peak); }
  void rank_steps(const RankStepBatch& steps) override {
    std::vector<Bytes> held;
    for (std::size_t rank = 0; rank < steps.peak_allocated.size(); ++rank) {
      held.push_back(held_(steps.step, static_cast<Rank>(rank), steps.peak_allocated[rank]));
    }
    std::vector<Time> computed;
    for (std::size_t rank = 0; rank < steps.compute.size(); ++rank) {
      computed.push_back(computed_(steps.step, static_cast<Rank>(rank), steps.compute[rank]));
    }
    RankStepBatch changed = steps;
    changed.peak_allocated = held;
    changed.compute = computed;
    to_.rank_steps(changed);
  }
  void diagnostic(const TraceDiagnostic& diagnostic) override { to_.diagnostic(diagnostic); }
  void memory_shortage(const TraceMemoryShortage& shortage) override {
    to_.memory_shortage(shortage);
  }
  Status finish() override { return to_.finish(); }

 private:
  TraceSink& to_;
  Held held_;
  Computed computed_;
};

}  // namespace tessera::bench
