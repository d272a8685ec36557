// SPDX-License-Identifier: Apache-2.0
#include "engine/tracing/traced_buffers.h"

#include <functional>
#include <string_view>

namespace tessera {

bool TracedBuffers::is_of(std::int32_t row, const Allocation& request,
                          MemoryClass memory_class) const {
  const Kind& kind = kinds_[static_cast<std::size_t>(row)];
  return kind.bytes == request.bytes && kind.memory_class == memory_class &&
         kind.name == request.name && kind.unit == request.cause.unit;
}

std::int32_t TracedBuffers::row_for(const Allocation& request, MemoryClass memory_class,
                                    TraceSink& sink) {
  std::size_t hash = 0;
  const auto mix = [&](std::size_t part) { hash = (hash ^ part) * 0x9E3779B97F4A7C15U; };
  mix(std::hash<std::string_view>()(request.name));
  mix(std::hash<std::string_view>()(request.cause.unit));
  mix(static_cast<std::size_t>(request.bytes.value));
  mix(static_cast<std::size_t>(memory_class));
  const auto [first, end] = rows_.equal_range(hash);
  for (auto known = first; known != end; ++known) {
    if (is_of(known->second, request, memory_class)) return known->second;
  }
  const auto row = static_cast<std::int32_t>(kinds_.size());
  rows_.emplace(hash, row);
  sink.buffer({row, request.name, request.cause.unit, memory_class, request.bytes});
  kinds_.push_back(
      {std::string(request.name), std::string(request.cause.unit), memory_class, request.bytes});
  return row;
}

void TracedBuffers::add(BufferId id, const Allocation& request, TraceSink& sink) {
  const MemoryClass memory_class = class_in(request.memory, request.memory_class);
  std::int32_t row = last_ < 0 ? -1 : kinds_[static_cast<std::size_t>(last_)].next;
  if (row < 0 || !is_of(row, request, memory_class)) {
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
