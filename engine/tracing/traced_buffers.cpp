// SPDX-License-Identifier: Apache-2.0
#include "engine/tracing/traced_buffers.h"

namespace tessera {

std::int32_t TracedBuffers::row_for(const Allocation& request, MemoryClass memory_class,
                                    TraceSink& sink) {
  if (2 * (kinds_.size() + 1) > places_.size()) grow();
  const std::hash<std::string_view> hash;
  // Sizes of one name are few.
  const std::size_t key = hash(request.name) ^ (3 * hash(request.cause.unit));
  std::size_t at = key & (places_.size() - 1);
  for (; places_[at].row >= 0; at = (at + 1) & (places_.size() - 1)) {
    const auto [known, row] = places_[at];
    if (known == key && kinds_[static_cast<std::size_t>(row)].is(request, memory_class)) return row;
  }
  const auto row = static_cast<std::int32_t>(kinds_.size());
  places_[at] = {key, row};
  sink.buffer({row, request.name, request.cause.unit, memory_class, request.bytes});
  kinds_.push_back(
      {std::string(request.name), std::string(request.cause.unit), memory_class, request.bytes});
  return row;
}

void TracedBuffers::grow() {
  std::vector<Place> old(places_.empty() ? 64 : 2 * places_.size());
  std::swap(places_, old);
  for (const Place& place : old) {
    if (place.row < 0) continue;
    std::size_t at = place.hash & (places_.size() - 1);
    while (places_[at].row >= 0) at = (at + 1) & (places_.size() - 1);
    places_[at] = place;
  }
}

void TracedBuffers::add(BufferId id, const Allocation& request, TraceSink& sink) {
  const MemoryClass memory_class = class_in(request.memory, request.memory_class);
  std::int32_t row = last_ < 0 ? -1 : kinds_[static_cast<std::size_t>(last_)].next;
  if (row < 0 || !kinds_[static_cast<std::size_t>(row)].is(request, memory_class)) {
    row = row_for(request, memory_class, sink);
    if (last_ >= 0) kinds_[static_cast<std::size_t>(last_)].next = row;
  }
  last_ = row;
  live_.add(id, {row, request.where.count()});
}

void TracedBuffers::release(BufferId id, const RankSet& ranks) {
  Live* const live = live_.find(id);
  if (live != nullptr && (live->ranks -= ranks.count()) <= 0) live_.erase(id);
}

}  // namespace tessera
