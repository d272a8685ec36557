// SPDX-License-Identifier: Apache-2.0
#include "tessera/runtime_trace.h"

#include <algorithm>
#include <deque>
#include <utility>

#include "engine/tracing/submitted_trace.h"
#include "engine/tracing/trace_replay.h"

namespace tessera {

struct RuntimeTrace::State {
  struct Times {
    EventId event;
    std::vector<Time> begin, end;  // by rank; empty: not known yet
  };
  struct Step {
    TraceItems items;
    std::size_t ops = 0;  // with times
  };

  State(TraceSink& sink, Rank count)
      : ranks(static_cast<std::size_t>(count)), submitted(sink), replay(count) {}

  Times* find(EventId event) {
    const auto found = std::lower_bound(times.begin(), times.end(), event,
                                        [](const Times& t, EventId id) { return t.event < id; });
    return found == times.end() || found->event != event ? nullptr : &*found;
  }

  void close_step() {
    steps.push_back({submitted.take(), std::exchange(open, 0)});
    play();
  }

  // Steps are played in their order, each as soon as all of its operations have times.
  void play() {
    while (!steps.empty()) {
      const auto end = times.begin() + static_cast<std::ptrdiff_t>(steps.front().ops);
      if (std::any_of(times.begin(), end, [](const Times& t) { return t.end.empty(); })) return;
      replay.play(
          std::move(steps.front().items),
          [this](std::span<Time> begin, std::span<Time> until) {
            std::copy(times.front().begin.begin(), times.front().begin.end(), begin.begin());
            std::copy(times.front().end.begin(), times.front().end.end(), until.begin());
            times.pop_front();
          },
          submitted.sink());
      steps.pop_front();
    }
  }

  const std::size_t ranks;
  SubmittedTrace submitted;
  TraceReplay replay;
  std::deque<Times> times;  // of operations that were not played, ascending
  std::deque<Step> steps;   // that are over but lack times
  std::size_t open = 0;     // operations of the step that is not over
};

RuntimeTrace::RuntimeTrace(TraceSink& sink, Rank ranks)
    : state_(std::make_unique<State>(sink, ranks)) {}

RuntimeTrace::~RuntimeTrace() = default;

void RuntimeTrace::ran(EventId event, Time begin, Time end) {
  const std::vector<Time> begins(state_->ranks, begin);
  const std::vector<Time> ends(state_->ranks, end);
  ran(event, begins, ends);
}

void RuntimeTrace::ran(EventId event, std::span<const Time> begin, std::span<const Time> end) {
  State::Times* const times = state_->find(event);
  if (times == nullptr) return;
  TESSERA_ASSERT(times->end.empty(), "an operation runs once");
  TESSERA_ASSERT(begin.size() == state_->ranks && end.size() == state_->ranks,
                 "times of all ranks");
  times->begin.assign(begin.begin(), begin.end());
  times->end.assign(end.begin(), end.end());
  state_->play();
}

void RuntimeTrace::stream_created(StreamId id, const CheckedRuntime::Stream& stream) {
  state_->submitted.add_stream(id, stream.name, stream.role);
}

void RuntimeTrace::communicator_created(CommunicatorId id,
                                        const CheckedRuntime::Communicator& communicator) {
  state_->submitted.add_communicator(id, communicator.name, communicator.groups);
}

void RuntimeTrace::buffer_requested(BufferId id, const Allocation& request) {
  state_->submitted.allocate(id, request);
}

void RuntimeTrace::buffer_placed(BufferId id, const Allocation& request, const RankSet& ranks,
                                 Bytes offset) {
  state_->submitted.place(id, request, ranks, offset + request.bytes);
}

void RuntimeTrace::buffer_released(BufferId id, const CheckedRuntime::Buffer& buffer, EventId after,
                                   const RankSet& ranks) {
  state_->submitted.release(id, class_in(buffer.memory, buffer.memory_class), buffer.bytes, after,
                            ranks);
}

void RuntimeTrace::op_submitted(const Op& op, EventId event, EventId first_live) {
  state_->submitted.submit(op, event, first_live);
  if (std::holds_alternative<Wait>(op.what) || std::holds_alternative<Mark>(op.what)) return;
  state_->times.push_back({event, {}, {}});
  ++state_->open;
}

void RuntimeTrace::event_awaited(EventId event) { state_->submitted.host_wait(event); }

void RuntimeTrace::step_ended(std::int32_t step, std::vector<PeakMemory> peaks) {
  state_->submitted.close_step(step, std::move(peaks));
  state_->close_step();
}

void RuntimeTrace::run_ended() {
  state_->close_step();
  TESSERA_ASSERT(state_->steps.empty(), "at the end of a run all operations have times");
  state_->replay.finish(state_->submitted.sink());
}

}  // namespace tessera
