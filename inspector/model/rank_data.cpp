// SPDX-License-Identifier: Apache-2.0
#include "inspector/model/rank_data.h"

#include <algorithm>

namespace tessera::inspector {
namespace {

storage::MemorySeries samples_of(const storage::MemorySeries& all, MemoryClass wanted) {
  storage::MemorySeries host;
  host.rank = all.rank;
  Bytes held{};
  for (std::size_t i = 0; i < all.time.size(); ++i) {
    if (all.memory_class[i] != wanted) continue;
    held += all.delta[i];
    host.time.push_back(all.time[i]);
    host.buffer.push_back(all.buffer[i]);
    host.memory_class.push_back(all.memory_class[i]);
    host.delta.push_back(all.delta[i]);
    host.allocated.push_back(held);
    host.reserved.push_back(held);
  }
  return host;
}

}  // namespace

std::optional<std::size_t> LaneData::find(std::int32_t op) const {
  const auto it = std::lower_bound(spans.op.begin(), spans.op.end(), op);
  if (it == spans.op.end() || *it != op) return {};
  return static_cast<std::size_t>(it - spans.op.begin());
}

const LaneData* RankData::lane(std::int32_t stream) const {
  for (const LaneData& lane : lanes) {
    if (lane.spans.stream == stream) return &lane;
  }
  return nullptr;
}

RankData load_rank(const analysis::Trace& trace, OpClasses& classes, Rank rank, Time from,
                   Time to) {
  RankData data;
  auto lanes = trace.reader().lanes(rank, from, to);
  if (!lanes.ok()) {
    data.problem = lanes.status();
    return data;
  }
  for (storage::Lane& lane : lanes.value()) data.lanes.push_back({std::move(lane), nullptr});
  for (LaneData& lane : data.lanes) {
    data.spans += lane.spans.op.size();
    std::vector<OpClass> of_spans;
    of_spans.reserve(lane.spans.op.size());
    for (const std::int32_t id : lane.spans.op) {
      of_spans.push_back(trace.holds_ops() ? class_of(trace.op(id)) : classes.at(id));
    }
    const storage::Lane& spans = lane.spans;
    lane.pyramid =
        std::make_unique<SpanPyramid>(spans.begin, spans.ready, spans.end, std::move(of_spans));
    if (trace.stream(spans.stream).role == StreamRole::compute) data.compute.push_back(&spans);
    data.order.push_back(spans.stream);
  }
  std::stable_sort(data.order.begin(), data.order.end(), [&](std::int32_t a, std::int32_t b) {
    return trace.stream(a).role < trace.stream(b).role;
  });
  return data;
}

void set_samples(RankMemory& memory, storage::MemorySeries samples) {
  memory.samples = std::move(samples);
  const auto& s = memory.samples;
  if (s.time.empty()) return;
  memory.pyramid =
      std::make_unique<MemoryPyramid>(s.time, s.memory_class, s.delta, s.allocated, s.reserved);
  memory.host.reserve(host_memory_stack.size());  // pyramids refer to samples, which must not move
  for (const MemoryClass c : host_memory_stack) {
    if (std::find(s.memory_class.begin(), s.memory_class.end(), c) == s.memory_class.end())
      continue;
    HostMemory& host = memory.host.emplace_back(HostMemory{c, samples_of(s, c), nullptr});
    const auto& h = host.samples;
    host.pyramid = std::make_unique<MemoryPyramid>(h.time, h.memory_class, h.delta, h.allocated,
                                                   h.reserved, false);
  }
}

}  // namespace tessera::inspector
