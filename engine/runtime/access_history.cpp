// SPDX-License-Identifier: Apache-2.0
#include "engine/runtime/access_history.h"

#include <algorithm>

namespace tessera {

std::string Accessor::to_string() const {
  std::string text(name_of(kind));
  if (cause.reason == Reason::copy_in) text = "copy-in";
  if (cause.reason == Reason::copy_out) text = "copy-out";
  if (!cause.unit.empty()) text += " of unit " + std::string(cause.unit);
  if (kind == OpKind::compute && !cause.module.empty()) {
    text += " in module " + std::string(cause.module);
  }
  return text;
}

// Every byte of `read` at `index` was written by somebody.
bool AccessHistory::initialised(const Access& read, Index index) const {
  std::int64_t at = read.begin_at(index);
  const std::int64_t end = read.end_at(index);
  for (bool advanced = true; at < end && advanced;) {
    advanced = false;
    for (const Record& r : records_) {
      if (!r.access.write) continue;
      if (r.access.begin_at(index) <= at && at < r.access.end_at(index)) {
        at = r.access.end_at(index);
        advanced = true;
      }
    }
  }
  return at >= end;
}

std::string AccessHistory::check(const Access& access, StreamId stream, Index group_size,
                                 const StreamOrder& order) const {
  for (const Record& r : records_) {
    if (!access.write && !r.access.write) continue;
    if (r.position.stream == stream.value || order.before_stream(r.position, stream)) continue;
    if (!overlap(access, r.access)) continue;
    return (access.write
                ? (r.access.write ? "overwrites it while the " : "overwrites it before the ")
                : "reads it before the ") +
           r.accessor.to_string() +
           (access.write && !r.access.write ? " that reads it has finished"
                                            : " that writes it has finished") +
           ": a wait is missing";
  }
  if (!access.write) {
    // The views are affine in the index: first, middle and last show any wrong offset.
    for (Index i : {Index{0}, static_cast<Index>(group_size / 2), group_size - 1}) {
      if (!initialised(access, i)) return "reads bytes of it that nothing has written";
    }
  }
  return {};
}

void AccessHistory::record(const Access& access, Position position, const Accessor& accessor) {
  if (access.write) {
    std::erase_if(records_, [&](const Record& r) { return contains(access, r.access); });
  } else {
    for (Record& r : records_) {
      if (r.access.write && overlap(r.access, access)) r.read_since = true;
    }
    std::erase_if(records_, [&](const Record& r) {
      return !r.access.write && r.position.stream == position.stream && contains(access, r.access);
    });
  }
  records_.push_back({access, position, accessor});
}

const Accessor* AccessHistory::not_before(EventId event, const StreamOrder& order) const {
  for (const Record& r : records_) {
    if (!event.valid() || !order.before_event(r.position, event)) return &r.accessor;
  }
  return nullptr;
}

const Accessor* AccessHistory::unread_collective() const {
  for (const Record& r : records_) {
    if (r.access.write && !r.read_since && is_collective(r.accessor.kind)) return &r.accessor;
  }
  return nullptr;
}

}  // namespace tessera
