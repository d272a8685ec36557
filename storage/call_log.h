// SPDX-License-Identifier: Apache-2.0
// The calls of a TraceSink as bytes, so that another thread can make them later.
//
// The idea: each argument struct lists its fields once (records.h); writing and reading follow the
// same list. Bytes never leave the process.
//
//   CallLog log;
//   log.op(op);                // copies strings and columns
//   replay(log.take(), sink);  // sink.op(the same)
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "tessera/trace.h"

namespace tessera::storage {

/// Bytes, and the work that is done between them.
struct Calls {
  std::vector<std::byte> bytes;
  std::vector<std::function<void(TraceSink&)>> works;
  std::size_t works_size = 0;

  std::size_t size() const { return bytes.size() + works_size; }
};

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
  void memory_shortage(const TraceMemoryShortage& shortage) override;
  void defer(Bytes size, std::function<void(TraceSink&)> work) override;
  /// Does nothing: what ends a log is its owner's business.
  Status finish() override { return {}; }

  std::size_t size() const { return calls_.size(); }
  /// Hands out the calls and starts anew in `memory`, whose bytes nobody wants any more.
  Calls take(std::vector<std::byte> memory = {}) {
    // As many as the last ones had, but for a step of very many ranks.
    constexpr std::size_t usual = 256 << 10;
    memory.clear();
    memory.reserve(std::min(calls_.bytes.capacity(), usual));
    return std::exchange(calls_, {.bytes = std::move(memory), .works = {}});
  }

 private:
  template <class T>
  void append(T arguments);

  Calls calls_;
};

/// Makes the calls, which came from CallLog, in order, once.
void replay(Calls& calls, TraceSink& sink);

}  // namespace tessera::storage
