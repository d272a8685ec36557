// SPDX-License-Identifier: Apache-2.0
#include "engine/tracing/waited_ops.h"

#include <algorithm>
#include <utility>

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
  for (std::size_t s = 0; s < event.all.size(); ++s) {
    waiting.all[s] = std::max(waiting.all[s], event.all[s]);
  }
  waiting.before.reset();
}

WaitedOps::Ids WaitedOps::ids_of(const Youngest& all) {
  std::vector<std::int32_t> ids;
  for (const std::int32_t id : all) {
    if (id >= 0) ids.push_back(id);
  }
  std::sort(ids.begin(), ids.end());
  return std::make_shared<const std::vector<std::int32_t>>(std::move(ids));
}

// Streams that never run anything wait for more and more. Twice as many as were left: so that each
// is looked at a few times only.
void WaitedOps::prune(Stream& stream) const {
  auto& ids = stream.direct;
  if (ids.size() < std::max<std::size_t>(256, 2 * stream.pruned)) return;
  make_set(ids);
  std::erase_if(ids, [this](std::int32_t id) { return id < first_; });
  stream.pruned = ids.size();
}

void WaitedOps::wait(const Op& op) {
  for (EventId event : op.after) {
    if (const Event* found = find(event)) wait_for(at(op.stream), *found);
  }
  const auto* wait = std::get_if<Wait>(&op.what);
  if (wait == nullptr || !wait->stream.valid() || wait->stream == op.stream) return;
  wait_for(at(op.stream), {last(wait->stream), at(wait->stream).all});
}

void WaitedOps::host_wait(EventId event) {
  const Event* found = find(event);
  if (found == nullptr) return;
  for (Stream& stream : streams_) wait_for(stream, *found);
}

void WaitedOps::record(const Op& op, EventId event) {
  Stream& stream = at(op.stream);
  if (std::holds_alternative<Wait>(op.what) || std::holds_alternative<Mark>(op.what)) {
    events_.push_back({stream.last, stream.all});
    return;
  }
  stream.last = event.value;
  stream.direct.clear();
  stream.pruned = 0;
  stream.all = none;
  stream.all[op.stream.index()] = event.value;
  stream.before.reset();
  events_.push_back({event.value, stream.all});
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

WaitedOps::Ids WaitedOps::behind(EventId event) {
  const Event* found = find(event);
  if (found == nullptr) return nullptr;
  if (event != behind_event_) {
    behind_ = ids_of(found->all);
    behind_event_ = event;
  }
  return behind_;
}

WaitedOps::Ids WaitedOps::before_next(StreamId id) const {
  const Stream& stream = at(id);
  if (!stream.before) stream.before = ids_of(stream.all);
  return stream.before;
}

}  // namespace tessera
