// SPDX-License-Identifier: Apache-2.0
// The trace of a program's own run.
//
// The idea: runtimes want their sink when they are made, but only then it is known which process
// has rank 0 and how many there are. So the file is opened afterwards, before the first operation.
#pragma once

#include <memory>
#include <string>

#include "tessera/checked_runtime.h"
#include "tessera/engine.h"
#include "tessera/storage/trace_writer.h"

namespace tessera::c {

class ProgramTrace final : public TraceSink {
 public:
  /// On rank 0, opens `path`; elsewhere nothing is written. Fails: io_error.
  Status begin(const CheckedRuntime& runtime, const std::string& path);
  /// Names the units of an engine.
  void engine_made(const Engine& engine);

  void begin(const TraceRun& run) override {
    tell([&](TraceSink& to) { to.begin(run); });
  }
  void stream(const TraceStream& stream) override {
    tell([&](TraceSink& to) { to.stream(stream); });
  }
  void communicator(const TraceCommunicator& group) override {
    tell([&](TraceSink& to) { to.communicator(group); });
  }
  void unit(const TraceUnit& unit) override {
    tell([&](TraceSink& to) { to.unit(unit); });
  }
  void op(const TraceOp& op) override {
    tell([&](TraceSink& to) { to.op(op); });
  }
  void spans(const SpanBatch& spans) override {
    tell([&](TraceSink& to) { to.spans(spans); });
  }
  void kernel(const TraceKernel& kernel) override {
    tell([&](TraceSink& to) { to.kernel(kernel); });
  }
  void buffer(const TraceBuffer& buffer) override {
    tell([&](TraceSink& to) { to.buffer(buffer); });
  }
  void memory(std::span<const MemorySample> samples) override {
    tell([&](TraceSink& to) { to.memory(samples); });
  }
  void peak_memory(const PeakMemory& peak) override {
    tell([&](TraceSink& to) { to.peak_memory(peak); });
  }
  void rank_steps(const RankStepBatch& steps) override {
    tell([&](TraceSink& to) { to.rank_steps(steps); });
  }
  void diagnostic(const TraceDiagnostic& what) override {
    tell([&](TraceSink& to) { to.diagnostic(what); });
  }
  void memory_shortage(const TraceMemoryShortage& shortage) override {
    tell([&](TraceSink& to) { to.memory_shortage(shortage); });
  }
  void defer(Bytes size, std::function<void(TraceSink&)> work) override {
    tell([&](TraceSink& to) { to.defer(size, std::move(work)); });
  }
  /// Completes the file. Fails: as storage::TraceWriter.
  Status finish() override;

 private:
  // What a runtime says before the file is open, or where there is none, is for nobody.
  template <class Call>
  void tell(const Call& call) {
    if (writer_) call(*writer_);
  }

  std::unique_ptr<storage::TraceWriter> writer_;
  std::int32_t units_ = 0;
};

}  // namespace tessera::c
