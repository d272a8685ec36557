// SPDX-License-Identifier: Apache-2.0
#include "engine/runtime/stream_order.h"

#include <algorithm>
#include <utility>

#include "tessera/assert.h"

namespace tessera {
namespace {

bool reached(const StreamClock& clock, Position position) {
  return position.stream < 0 || clock[static_cast<std::size_t>(position.stream)] >= position.count;
}

}  // namespace

const StreamOrder::Event* StreamOrder::find(EventId event) const {
  TESSERA_ASSERT(recorded(event), "an event must be recorded before it is used");
  if (event.value < first_live_) return nullptr;
  return &events_[static_cast<std::size_t>(event.value - first_live_)];
}

void StreamOrder::learned() {
  ++waits_;
  reached_is_old_ = true;
}

void StreamOrder::wait(StreamId waiting, EventId event) {
  const Event* const e = find(event);
  if (e == nullptr) return;
  join(clocks_[waiting.index()], e->clock);
  learned();
}

void StreamOrder::wait_stream(StreamId waiting, StreamId other) {
  join(clocks_[waiting.index()], clocks_[other.index()]);
  learned();
}

void StreamOrder::host_wait(EventId event) {
  const Event* const e = find(event);
  if (e == nullptr) return;
  for (auto& clock : clocks_) join(clock, e->clock);
  learned();
}

Position StreamOrder::advance(StreamId stream, EventId event) {
  TESSERA_ASSERT(event.value == next_event(), "events are recorded in the order of their ids");
  StreamClock& clock = clocks_[stream.index()];
  const Position position{stream.value, ++clock[stream.index()]};
  if (streams_ == 1) reached_is_old_ = true;  // else another stream has not got so far
  events_.push_back({position, clock});
  return position;
}

void StreamOrder::skip(StreamId stream, EventId event) {
  TESSERA_ASSERT(event.value == next_event(), "events are recorded in the order of their ids");
  ++clocks_[stream.index()][stream.index()];
  if (streams_ == 1) reached_is_old_ = true;
  events_.push_back({});
}

bool StreamOrder::before_stream(Position position, StreamId stream) const {
  return reached(clocks_[stream.index()], position);
}

bool StreamOrder::before_event(Position position, EventId event) const {
  const Event* e = find(event);
  return e == nullptr ? reached(reached_by_all(), position) : reached(e->clock, position);
}

Position StreamOrder::position_of(EventId event) const {
  const Event* e = find(event);
  return e == nullptr ? Position{} : e->position;
}

const StreamClock& StreamOrder::reached_by_all() const {
  if (!std::exchange(reached_is_old_, false)) return reached_;
  reached_ = clocks_[0];
  for (int s = 1; s < streams_; ++s) {
    const StreamClock& clock = clocks_[static_cast<std::size_t>(s)];
    for (std::size_t t = 0; t < reached_.size(); ++t) reached_[t] = std::min(reached_[t], clock[t]);
  }
  return reached_;
}

EventId StreamOrder::over_before() const {
  if (last_uncertain_ >= 0 || std::ssize(events_) > events_kept) return {};
  const StreamClock& least = reached_by_all();
  const auto live = std::find_if(events_.begin(), events_.end(),
                                 [&](const Event& e) { return !reached(least, e.position); });
  return EventId{first_live_ + static_cast<std::int32_t>(live - events_.begin())};
}

void StreamOrder::prune() {
  const StreamClock& least = reached_by_all();
  while (!events_.empty()) {
    const bool over = reached(least, events_.front().position);
    if (!over && std::ssize(events_) <= events_kept) return;
    // Of a stream that nobody waits for, or while another never waits for anybody.
    if (!over) last_uncertain_ = first_live_;
    events_.pop_front();
    ++first_live_;
  }
}

}  // namespace tessera
