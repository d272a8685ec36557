// SPDX-License-Identifier: Apache-2.0
// The calls of a TraceSink as bytes, so that another thread can make them later.
//
// The idea: each argument struct lists its fields once (call_log.cpp); writing and reading follow
// the same list. Bytes never leave the process.
//
//   CallLog log;
//   log.op(op);                 // copies strings and columns
//   replay(log.bytes(), sink);  // sink.op(the same)
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "tessera/trace.h"

namespace tessera::storage {

class CallLog : public TraceSink {
 public:
  void begin(const TraceRun& run) override;
  void stream(const TraceStream& stream) override;
  void communicator(const TraceCommunicator& communicator) override;
  void unit(const TraceUnit& unit) override;
  void op(const TraceOp& op) override;
  void spans(const SpanBatch& spans) override;
  void kernel(const TraceKernel& kernel) override;
  void buffer(const TraceBuffer& buffer) override;
  void memory(std::span<const MemorySample> samples) override;
  void peak_memory(const PeakMemory& peak) override;
  void rank_steps(const RankStepBatch& steps) override;
  void diagnostic(const TraceDiagnostic& diagnostic) override;
  /// Does nothing: what ends a log is its owner's business.
  Status finish() override { return {}; }

  const std::vector<std::byte>& bytes() const { return bytes_; }
  /// Hands out the bytes and starts anew, with room for as many.
  std::vector<std::byte> take() {
    std::vector<std::byte> next;
    next.reserve(bytes_.capacity());
    return std::exchange(bytes_, std::move(next));
  }

 private:
  template <class T>
  void append(T arguments);

  std::vector<std::byte> bytes_;
};

/// Makes the calls of `bytes`, which came from CallLog, in order.
void replay(std::span<const std::byte> bytes, TraceSink& sink);

}  // namespace tessera::storage
