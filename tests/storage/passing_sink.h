// SPDX-License-Identifier: Apache-2.0
// A sink whose calls go to another one.
#pragma once

#include <functional>

#include "tessera/trace.h"

namespace tessera::test {

class PassingSink : public TraceSink {
 public:
  explicit PassingSink(TraceSink& to) : to_(to) {}

  void begin(const TraceRun& v) override { call(&TraceSink::begin, v); }
  void stream(const TraceStream& v) override { call(&TraceSink::stream, v); }
  void communicator(const TraceCommunicator& v) override { call(&TraceSink::communicator, v); }
  void unit(const TraceUnit& v) override { call(&TraceSink::unit, v); }
  void op(const TraceOp& v) override { call(&TraceSink::op, v); }
  void spans(const SpanBatch& v) override { call(&TraceSink::spans, v); }
  void kernel(const TraceKernel& v) override { call(&TraceSink::kernel, v); }
  void buffer(const TraceBuffer& v) override { call(&TraceSink::buffer, v); }
  void memory(std::span<const MemorySample> v) override { call(&TraceSink::memory, v); }
  void peak_memory(const PeakMemory& v) override { call(&TraceSink::peak_memory, v); }
  void rank_steps(const RankStepBatch& v) override { call(&TraceSink::rank_steps, v); }
  void diagnostic(const TraceDiagnostic& v) override { call(&TraceSink::diagnostic, v); }
  void memory_shortage(const TraceMemoryShortage& v) override {
    call(&TraceSink::memory_shortage, v);
  }
  Status finish() override { return to_.finish(); }

 protected:
  /// `call` is valid during the call only, as what it holds.
  virtual void pass(const std::function<void(TraceSink&)>& call) { call(to_); }

  TraceSink& to_;

 private:
  template <class T>
  void call(void (TraceSink::*member)(T), const std::type_identity_t<T>& argument) {
    pass([&](TraceSink& sink) { (sink.*member)(argument); });
  }
};

}  // namespace tessera::test
