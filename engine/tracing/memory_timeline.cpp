// SPDX-License-Identifier: Apache-2.0
#include "engine/tracing/memory_timeline.h"

#include <algorithm>

#include "engine/runtime/allocator.h"

namespace tessera {

MemoryTimeline::MemoryTimeline(std::vector<Rank> ranks)
    : ranks_(std::move(ranks)), lanes_(ranks_.size()) {}

void MemoryTimeline::change(std::size_t slot, Time time, std::int32_t buffer,
                            MemoryClass memory_class, Bytes delta, Bytes address_end) {
  Lane& lane = lanes_[slot];
  lane.pending.push_back({std::max(time, lane.sent), buffer, memory_class, delta, address_end, {}});
}

void MemoryTimeline::gave_back(std::size_t slot, Time time, Bytes reserved) {
  Lane& lane = lanes_[slot];
  lane.pending.push_back({.time = std::max(time, lane.sent), .kept = reserved});
}

void MemoryTimeline::flush(std::size_t slot, Time horizon, TraceSink& sink) {
  Lane& lane = lanes_[slot];
  const auto end = std::stable_partition(lane.pending.begin(), lane.pending.end(),
                                         [&](const Change& c) { return c.time < horizon; });
  // At one moment what goes makes room for what comes.
  std::stable_sort(lane.pending.begin(), end, [](const Change& a, const Change& b) {
    return a.time != b.time ? a.time < b.time : (a.delta < Bytes{0}) > (b.delta < Bytes{0});
  });
  lane.sent = std::max(lane.sent, horizon);
  std::vector<MemorySample> samples;
  samples.reserve(static_cast<std::size_t>(end - lane.pending.begin()));
  for (auto it = lane.pending.begin(); it != end; ++it) {
    if (it->kept) {
      lane.reserved = *it->kept;
      continue;
    }
    if (!is_on_device(it->memory_class)) {
      samples.push_back({ranks_[slot], it->time, it->buffer, it->memory_class, it->delta,
                         lane.allocated, lane.reserved});
      continue;
    }
    lane.allocated += it->delta;
    const std::int64_t page = allocator_page.value;
    const Bytes used{(it->address_end.value + page - 1) / page * page};
    // On the device's clock more may be held at once than on the host's.
    const Bytes least{(lane.allocated.value + page - 1) / page * page};
    if (it->delta > Bytes{0}) lane.reserved = std::max(lane.reserved, used);
    lane.reserved = std::max(lane.reserved, least);
    samples.push_back({ranks_[slot], it->time, it->buffer, it->memory_class, it->delta,
                       lane.allocated, lane.reserved});
  }
  lane.pending.erase(lane.pending.begin(), end);
  if (!samples.empty()) sink.memory(samples);
}

}  // namespace tessera
