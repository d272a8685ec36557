// SPDX-License-Identifier: Apache-2.0
#include "engine/tracing/waited_ops.h"

#include <algorithm>

namespace tessera {
namespace {

void make_set(std::vector<std::int32_t>& ids) {
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
}

}  // namespace

const WaitedOps::Event* WaitedOps::find(EventId event) const {
  if (event.value < first_) return nullptr;
  return &events_[static_cast<std::size_t>(event.value - first_)];
}

void WaitedOps::wait_for(Stream& waiting, const Event& event) {
  if (event.direct >= 0) waiting.direct.push_back(event.direct);
  waiting.all.insert(waiting.all.end(), event.all->begin(), event.all->end());
  waiting.before.reset();
}

// Streams that never run anything wait for more and more.
void WaitedOps::prune(Stream& stream) const {
  for (auto* ids : {&stream.direct, &stream.all}) {
    if (ids->size() < 256) continue;
    make_set(*ids);
    std::erase_if(*ids, [this](std::int32_t id) { return id < first_; });
    stream.before.reset();
  }
}

void WaitedOps::wait(const Op& op) {
  for (EventId event : op.after) {
    if (const Event* found = find(event)) wait_for(at(op.stream), *found);
  }
  const auto* wait = std::get_if<Wait>(&op.what);
  if (wait == nullptr || !wait->stream.valid() || wait->stream == op.stream) return;
  wait_for(at(op.stream), {last(wait->stream), before_next(wait->stream)});
}

void WaitedOps::host_wait(EventId event) {
  const Event* found = find(event);
  if (found == nullptr) return;
  for (Stream& stream : streams_) wait_for(stream, *found);
}

void WaitedOps::record(const Op& op, EventId event) {
  Stream& stream = at(op.stream);
  if (std::holds_alternative<Wait>(op.what) || std::holds_alternative<Mark>(op.what)) {
    events_.push_back({stream.last, before_next(op.stream)});
    return;
  }
  stream.last = event.value;
  stream.direct.clear();
  stream.all.clear();
  stream.before = std::make_shared<const std::vector<std::int32_t>>(1, event.value);
  events_.push_back({event.value, stream.before});
}

void WaitedOps::forget_before(EventId event) {
  if (first_ >= event.value) return;
  while (first_ < event.value && !events_.empty()) {
    events_.pop_front();
    ++first_;
  }
  for (Stream& stream : streams_) prune(stream);
}

std::vector<std::int32_t> WaitedOps::after(StreamId id) const {
  std::vector<std::int32_t> ids = at(id).direct;
  make_set(ids);
  std::erase(ids, at(id).last);
  return ids;
}

WaitedOps::Ids WaitedOps::behind(EventId event) const {
  const Event* found = find(event);
  return found == nullptr ? nullptr : found->all;
}

WaitedOps::Ids WaitedOps::before_next(StreamId id) const {
  const Stream& stream = at(id);
  if (stream.before) return stream.before;
  std::vector<std::int32_t> ids = stream.all;
  if (stream.last >= 0) ids.push_back(stream.last);
  make_set(ids);
  stream.before = std::make_shared<const std::vector<std::int32_t>>(std::move(ids));
  return stream.before;
}

}  // namespace tessera
