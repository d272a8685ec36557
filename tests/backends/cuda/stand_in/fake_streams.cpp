// SPDX-License-Identifier: Apache-2.0
#include "tests/backends/cuda/stand_in/fake_streams.h"

#include <algorithm>
#include <atomic>

#include "tessera/assert.h"

namespace tessera::test {

FakeStream* FakeStreams::create(int device) {
  const auto on_device = std::count_if(streams_.begin(), streams_.end(),
                                       [&](const auto& s) { return s->device == device; });
  const auto index = static_cast<std::size_t>(on_device);
  TESSERA_ASSERT(index < fake_streams_max, "a run has few streams");
  streams_.push_back(std::make_unique<FakeStream>());
  streams_.back()->device = device;
  streams_.back()->index = index;
  return streams_.back().get();
}

bool FakeStreams::knows(const FakeStream* stream) const {
  return std::any_of(streams_.begin(), streams_.end(),
                     [&](const auto& s) { return s.get() == stream && !s->destroyed; });
}

// What is queued still runs.
bool FakeStreams::destroy(FakeStream* stream) {
  if (!knows(stream)) return false;
  stream->destroyed = true;
  return true;
}

std::shared_ptr<FakeEvent> FakeStreams::create_event(int device) {
  events_.push_back(std::make_shared<FakeEvent>());
  events_.back()->device = device;
  return events_.back();
}

std::shared_ptr<FakeEvent> FakeStreams::event(const FakeEvent* event) const {
  const auto found =
      std::find_if(events_.begin(), events_.end(), [&](const auto& e) { return e.get() == event; });
  return found == events_.end() ? nullptr : *found;
}

bool FakeStreams::destroy_event(const FakeEvent* event) {
  return std::erase_if(events_, [&](const auto& e) { return e.get() == event; }) == 1;
}

const Clock& FakeStreams::advance(FakeStream& stream) {
  join(stream.clock, seen(stream.device));
  ++stream.clock[stream.index];
  return stream.clock;
}

void FakeStreams::record(FakeStream& stream, const std::shared_ptr<FakeEvent>& event) {
  event->clock = stream.clock;
  ++event->recorded;
  stream.queue.push_back({{}, event, event->recorded, /*waits=*/false, nullptr});
}

void FakeStreams::wait(FakeStream& stream, const std::shared_ptr<FakeEvent>& event) {
  join(stream.clock, event->clock);
  stream.queue.push_back({{}, event, event->recorded, /*waits=*/true, nullptr});
}

void FakeStreams::wait(FakeStream& stream, const std::uint32_t* word, std::uint32_t value) {
  FakeOp op;
  op.word = word;
  op.value = value;
  stream.queue.push_back(std::move(op));
}

void FakeStreams::write(FakeStream& stream, std::uint32_t* word, std::uint32_t value) {
  FakeOp op;
  op.run = [this, word, value, device = stream.device, over = stream.clock] {
    join(seen_[static_cast<std::size_t>(device)], over);
    std::atomic_ref(*word).store(value, std::memory_order_release);
  };
  stream.queue.push_back(std::move(op));
}

std::shared_ptr<FakeGraph> FakeStreams::graph(const FakeGraph* graph) const {
  const auto found =
      std::find_if(graphs_.begin(), graphs_.end(), [&](const auto& g) { return g.get() == graph; });
  return found == graphs_.end() ? nullptr : *found;
}

FakeGraph* FakeStreams::keep(std::shared_ptr<FakeGraph> graph) {
  graphs_.push_back(std::move(graph));
  return graphs_.back().get();
}

bool FakeStreams::destroy_graph(const FakeGraph* graph) {
  return std::erase_if(graphs_, [&](const auto& g) { return g.get() == graph; }) == 1;
}

void FakeStreams::see(const FakeEvent& event) {
  join(seen_[static_cast<std::size_t>(event.device)], event.clock);
}

bool FakeStreams::may_run(const FakeStream& stream) const {
  if (stream.queue.empty()) return false;
  const FakeOp& op = stream.queue.front();
  if (op.word != nullptr) {  // another thread may write it
    const std::uint32_t now =
        std::atomic_ref(const_cast<std::uint32_t&>(*op.word)).load(std::memory_order_acquire);
    return static_cast<std::int32_t>(now - op.value) >= 0;
  }
  if (op.waits) return op.event->reached >= op.generation;
  if (!op.meeting) return true;
  const auto at_head = [&](const FakeStream* s) {
    return !s->queue.empty() && s->queue.front().meeting == op.meeting;
  };
  const auto& streams = op.meeting->streams();
  return op.meeting->may_run() && std::all_of(streams.begin(), streams.end(), at_head);
}

Time FakeStreams::device_time(int device) const {
  constexpr Time ahead = 5'000'000'000;
  constexpr Time drift_ppm = 50;
  return now_ + (device + 1) * (ahead + now_ / 1'000'000 * drift_ppm);
}

void FakeStreams::work() { now_ += (worked_++ % 13 + 1) * 1'000; }

bool FakeStreams::step() {
  std::vector<FakeStream*> ready;
  for (const auto& stream : streams_) {
    if (may_run(*stream)) ready.push_back(stream.get());
  }
  if (ready.empty()) return false;
  const auto chosen = random_.below(static_cast<std::int64_t>(ready.size()));
  FakeStream& stream = *ready[static_cast<std::size_t>(chosen)];
  const FakeOp op = stream.queue.front();
  if (op.meeting || op.run) work();
  if (op.meeting) {
    op.meeting->run();
    for (FakeStream* each : op.meeting->streams()) each->queue.pop_front();
    return true;
  }
  stream.queue.pop_front();
  if (op.run) op.run();
  if (op.event && !op.waits && op.event->reached < op.generation) {
    op.event->reached = op.generation;
    op.event->time = device_time(op.event->device);
  }
  return true;
}

bool FakeStreams::idle(int device) const {
  return std::all_of(streams_.begin(), streams_.end(), [device](const auto& stream) {
    return stream->device != device || stream->queue.empty();
  });
}

void FakeStreams::drop(const Meeting* meeting, const FakeStream* of) {
  for (const auto& stream : streams_) {
    if (stream.get() != of) continue;
    std::erase_if(stream->queue, [&](const FakeOp& op) { return op.meeting.get() == meeting; });
  }
}

std::size_t FakeStreams::live() const {
  const auto streams =
      std::count_if(streams_.begin(), streams_.end(), [](const auto& s) { return !s->destroyed; });
  return static_cast<std::size_t>(streams) + events_.size() + graphs_.size();
}

}  // namespace tessera::test
