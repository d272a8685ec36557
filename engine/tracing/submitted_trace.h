// SPDX-License-Identifier: Apache-2.0
// The trace of a run whose times are measured: what is known when it is submitted.
//
// The idea: rows of operations and buffers need no times, so they go to the sink at once. The rest
// is kept as a list of values, which TraceReplay goes through when the times have come, whoever
// calls it.
#pragma once

#include <string_view>
#include <vector>

#include "engine/tracing/trace_items.h"
#include "engine/tracing/traced_buffers.h"
#include "tessera/runtime.h"

namespace tessera {

class SubmittedTrace {
 public:
  explicit SubmittedTrace(TraceSink& sink) : sink_(sink) {}

  // In the order of the calls of a Runtime.
  void add_stream(StreamId id, std::string_view name, StreamRole role);
  void add_communicator(CommunicatorId id, std::string_view name, const RankGroups& groups);
  /// `algorithm`: how a collective is carried out, if that is known.
  void submit(const Op& op, EventId event, EventId first_live, std::string_view algorithm = {});
  void host_wait(EventId event) { waited_.host_wait(event); }
  void allocate(BufferId id, const Allocation& request) { buffers_.add(id, request, sink_); }
  /// `end`: one past its last byte, of `ranks`.
  void place(BufferId id, const Allocation& request, const RankSet& ranks, Bytes end);
  void release(BufferId id, MemoryClass memory_class, Bytes bytes, EventId after,
               const RankSet& ranks);
  void close_step(std::int32_t step, std::vector<PeakMemory> peaks);

  /// Returns the items since the last call.
  TraceItems take();

  TraceSink& sink() { return sink_; }

 private:
  TraceSink& sink_;
  WaitedOps waited_;
  StreamId compute_;  // the first, whose end is a step's end
  TracedBuffers buffers_;
  TraceItems items_;
};

}  // namespace tessera
