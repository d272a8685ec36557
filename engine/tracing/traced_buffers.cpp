// SPDX-License-Identifier: Apache-2.0
#include "engine/tracing/traced_buffers.h"

namespace tessera {

std::int32_t TracedBuffers::row_for(const Allocation& request, MemoryClass memory_class,
                                    TraceSink& sink) {
  const auto append = [this](const auto& number) {
    key_.append(reinterpret_cast<const char*>(&number), sizeof number);
  };
  key_.assign(request.name);
  append(request.name.size());
  key_.append(request.cause.unit);
  append(memory_class);
  append(request.bytes.value);
  const auto [found, is_new] = rows_.try_emplace(key_, static_cast<std::int32_t>(rows_.size()));
  const std::int32_t row = found->second;
  if (is_new) {
    sink.buffer({row, request.name, request.cause.unit, memory_class, request.bytes});
    kinds_.push_back(
        {std::string(request.name), std::string(request.cause.unit), memory_class, request.bytes});
  }
  return row;
}

void TracedBuffers::add(BufferId id, const Allocation& request, TraceSink& sink) {
  const MemoryClass memory_class = class_in(request.memory, request.memory_class);
  const auto is = [&](const Kind& kind) {
    return kind.bytes == request.bytes && kind.memory_class == memory_class &&
           kind.name == request.name && kind.unit == request.cause.unit;
  };
  std::int32_t row = last_ < 0 ? -1 : kinds_[static_cast<std::size_t>(last_)].next;
  if (row < 0 || !is(kinds_[static_cast<std::size_t>(row)])) {
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
