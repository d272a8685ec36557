// SPDX-License-Identifier: Apache-2.0
#include "tessera/analysis/spans.h"

#include <algorithm>
#include <set>

#include "tessera/analysis/collectives.h"

namespace tessera::analysis {

namespace {

std::vector<const storage::Lane*> lanes_of(StreamRole role, const Trace& trace,
                                           const std::vector<storage::Lane>& lanes) {
  std::vector<const storage::Lane*> all;
  for (const storage::Lane& lane : lanes) {
    if (trace.stream(lane.stream).role == role) all.push_back(&lane);
  }
  return all;
}

}  // namespace

std::vector<const storage::Lane*> compute_lanes(const Trace& trace,
                                                const std::vector<storage::Lane>& lanes) {
  return lanes_of(StreamRole::compute, trace, lanes);
}

std::vector<const storage::Lane*> collective_lanes(const Trace& trace,
                                                   const std::vector<storage::Lane>& lanes) {
  return lanes_of(StreamRole::communication, trace, lanes);
}

std::vector<std::pair<Time, Time>> exposed_parts(Lanes compute, Time begin, Time end) {
  std::vector<std::pair<Time, Time>> parts = {{begin, end}};
  for (const storage::Lane* lane : compute) {
    std::vector<std::pair<Time, Time>> left;
    for (auto [from, to] : parts) {
      // Spans of a stream do not overlap, so their ends ascend as their begins do.
      auto i = static_cast<std::size_t>(std::upper_bound(lane->end.begin(), lane->end.end(), from) -
                                        lane->end.begin());
      for (; i < lane->end.size() && lane->begin[i] < to; ++i) {
        if (from < lane->begin[i]) left.emplace_back(from, lane->begin[i]);
        from = std::max(from, lane->end[i]);
      }
      if (from < to) left.emplace_back(from, to);
    }
    parts = std::move(left);
  }
  return parts;
}

SpanFacts facts_of(const Trace& trace, Lanes compute, const storage::Lane& lane,
                   std::size_t index) {
  const storage::OpRow& op = trace.op(lane.op[index]);
  SpanFacts facts;
  facts.begin = lane.begin[index];
  facts.duration = lane.end[index] - facts.begin;
  facts.collective = is_collective(op.kind);
  if (op.flops > 0 && facts.duration > 0) {
    facts.flops_per_s = op.flops / static_cast<double>(facts.duration) * 1e9;
  }
  if (!facts.collective) return facts;
  facts.wait = lane.ready[index] - facts.begin;
  facts.transfer = facts.duration - facts.wait;
  for (auto [begin, end] : exposed_parts(compute, facts.begin, lane.end[index])) {
    facts.exposed += end - begin;
  }
  facts.bus_bandwidth = bus_bandwidth(trace, op, facts.transfer);
  facts.kernel = trace.kernel_time(lane.rank, op.id);
  facts.kernel_bus_bandwidth = bus_bandwidth(trace, op, facts.kernel);
  return facts;
}

std::optional<PrefetchUse> prefetch_use(const Trace& trace, Lanes compute,
                                        const storage::OpRow& prefetch) {
  if (prefetch.reason != Reason::backward_prefetch && prefetch.reason != Reason::forward_prefetch) {
    return {};
  }
  std::set<std::string> between;
  for (const storage::Lane* lane : compute) {
    const auto first = static_cast<std::size_t>(
        std::upper_bound(lane->op.begin(), lane->op.end(), prefetch.id) - lane->op.begin());
    for (std::size_t i = first; i < lane->op.size(); ++i) {
      const storage::OpRow& op = trace.op(lane->op[i]);
      if (op.unit == prefetch.unit) {  // computed with, or copied out for that
        const auto end_before = [&](std::size_t k) { return k == 0 ? 0 : lane->end[k - 1]; };
        return PrefetchUse{static_cast<std::int32_t>(between.size()), end_before(first),
                           lane->begin[i], end_before(i)};
      }
      if (op.kind == OpKind::compute) between.insert(op.unit);
    }
  }
  return {};
}

}  // namespace tessera::analysis
