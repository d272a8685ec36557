// SPDX-License-Identifier: Apache-2.0
// Passes a recording on as it is; who derives from it changes a part.
#pragma once

#include "tessera/trace.h"

namespace tessera {

class PassingSink : public TraceSink {
 public:
  /// `to` outlives it.
  explicit PassingSink(TraceSink& to) : to_(to) {}

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
  void rank_steps(const RankStepBatch& steps) override { to_.rank_steps(steps); }
  void diagnostic(const TraceDiagnostic& diagnostic) override { to_.diagnostic(diagnostic); }
  void memory_shortage(const TraceMemoryShortage& shortage) override {
    to_.memory_shortage(shortage);
  }
  Status finish() override { return to_.finish(); }

 protected:
  TraceSink& to() { return to_; }

 private:
  TraceSink& to_;
};

}  // namespace tessera
