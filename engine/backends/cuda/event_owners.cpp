// SPDX-License-Identifier: Apache-2.0
#include "engine/backends/cuda/event_owners.h"

#include <algorithm>

namespace tessera {

Lane* EventOwners::of(EventId event) const {
  if (event.value < first_) return nullptr;
  const std::int8_t owner = owners_[static_cast<std::size_t>(event.value - first_)];
  return owner < 0 ? nullptr : lanes_[static_cast<std::size_t>(owner)].get();
}

void EventOwners::forget() {
  const auto is_over = [this](std::int8_t owner) {
    return owner < 0 || EventId{first_} <= lanes_[static_cast<std::size_t>(owner)]->finished();
  };
  while (!owners_.empty() && is_over(owners_.front())) {
    owners_.pop_front();
    ++first_;
  }
}

// The progress of a stream for which no other waits is not known: it is queried, but seldom, as
// each answer takes an event.
Status EventOwners::add(StreamId stream) {
  owners_.push_back(stream.valid() ? static_cast<std::int8_t>(stream.value) : std::int8_t{-1});
  forget();
  if (owners_.size() < check_at_) return {};
  for (const auto& lane : lanes_) TESSERA_TRY(lane->reached(lane->youngest()).status());
  forget();
  check_at_ = std::max<std::size_t>(4096, 2 * owners_.size());
  return {};
}

}  // namespace tessera
