// SPDX-License-Identifier: Apache-2.0
#include "engine/tracing/submitted_trace.h"

#include <utility>

#include "engine/tracing/trace_row.h"

namespace tessera {

void SubmittedTrace::add_stream(StreamId id, std::string_view name, StreamRole role) {
  waited_.add_stream();
  if (role == StreamRole::compute && !compute_.valid()) compute_ = id;
  sink_.stream({id.value, name, role});
  items_.emplace_back(TracedStream{role});
}

void SubmittedTrace::add_communicator(CommunicatorId id, std::string_view name,
                                      const RankGroups& groups) {
  sink_.communicator({id.value, name, groups.group_size_max(), groups.group_count()});
  items_.emplace_back(TracedGroups{id, groups});
}

void SubmittedTrace::submit(const Op& op, EventId event, EventId first_live,
                            std::string_view algorithm) {
  waited_.wait(op);
  if (std::holds_alternative<Wait>(op.what) || std::holds_alternative<Mark>(op.what)) {
    return waited_.record(op, event);
  }
  const std::vector<std::int32_t> after = waited_.after(op.stream);
  TraceRow row(op, event);
  row.op.after = after;
  row.op.algorithm = algorithm;
  sink_.op(row.op);
  items_.emplace_back(TimedOp{event.value, kind_of(op), op.stream, communicator_of(op), op.where,
                              waited_.before_next(op.stream), first_live});
  waited_.record(op, event);
  waited_.forget_before(first_live);
}

void SubmittedTrace::place(BufferId id, const Allocation& request, const RankSet& ranks,
                           Bytes end) {
  const StreamId stream = request.stream;
  items_.emplace_back(MemoryChange{
      buffers_.row_of(id), class_in(request.memory, request.memory_class), request.bytes, end,
      ranks, stream, stream.valid() ? waited_.before_next(stream) : nullptr});
}

void SubmittedTrace::release(BufferId id, MemoryClass memory_class, Bytes bytes, EventId after,
                             const RankSet& ranks) {
  WaitedOps::Ids ops = after.valid() ? waited_.behind(after) : nullptr;
  items_.emplace_back(MemoryChange{buffers_.row_of(id), memory_class, -bytes, Bytes{}, ranks,
                                   StreamId{}, std::move(ops)});
  buffers_.release(id, ranks);
}

void SubmittedTrace::close_step(std::int32_t step, std::vector<PeakMemory> peaks) {
  if (!compute_.valid()) return;
  items_.emplace_back(StepEnd{step, std::move(peaks), waited_.before_next(compute_)});
}

TraceItems SubmittedTrace::take() {
  TraceItems next;
  next.reserve(items_.size());  // steps are alike
  return std::exchange(items_, std::move(next));
}

}  // namespace tessera
