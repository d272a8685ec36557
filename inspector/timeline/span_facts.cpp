// SPDX-License-Identifier: Apache-2.0
#include "inspector/timeline/span_facts.h"

#include <algorithm>
#include <set>

namespace tessera::inspector {
namespace {

double per_second(Bytes bytes, Time time) {
  return time > 0 ? static_cast<double>(bytes.value) / (static_cast<double>(time) / 1e9) : 0;
}

}  // namespace

double bus_factor(OpKind kind, std::int32_t group_size) {
  const double n = std::max(group_size, 1);
  if (kind == OpKind::all_gather || kind == OpKind::reduce_scatter || kind == OpKind::all_to_all) {
    return (n - 1) / n;
  }
  return kind == OpKind::all_reduce ? 2 * (n - 1) / n : 1;
}

std::vector<std::pair<Time, Time>> exposed_parts(TraceModel& model, const SpanRef& span) {
  const RankData& rank = model.rank(span.rank);
  const auto& spans = rank.lane(span.stream)->spans;
  std::vector<std::pair<Time, Time>> parts = {{spans.begin[span.index], spans.end[span.index]}};
  for (const LaneData& lane : rank.lanes) {
    if (model.stream(lane.spans.stream).role != StreamRole::compute) continue;
    std::vector<std::pair<Time, Time>> left;
    for (auto [begin, end] : parts) {
      for (std::size_t i = lane.pyramid->first_ending_after(begin);
           i < lane.pyramid->size() && lane.pyramid->begin(i) < end; ++i) {
        if (begin < lane.pyramid->begin(i)) left.emplace_back(begin, lane.pyramid->begin(i));
        begin = std::max(begin, lane.pyramid->end(i));
      }
      if (begin < end) left.emplace_back(begin, end);
    }
    parts = std::move(left);
  }
  return parts;
}

SpanFacts facts_of(TraceModel& model, const SpanRef& span) {
  const auto& spans = model.rank(span.rank).lane(span.stream)->spans;
  const storage::OpRow& op = model.op(spans.op[span.index]);
  SpanFacts facts;
  facts.begin = spans.begin[span.index];
  facts.duration = spans.end[span.index] - facts.begin;
  facts.collective = is_collective(op.kind);
  const double seconds = static_cast<double>(facts.duration) / 1e9;
  if (op.flops > 0 && seconds > 0) facts.flops_per_s = op.flops / seconds;
  if (!facts.collective) return facts;
  facts.wait = spans.ready[span.index] - facts.begin;
  facts.transfer = facts.duration - facts.wait;
  for (auto [begin, end] : exposed_parts(model, span)) facts.exposed += end - begin;
  facts.kernel = model.kernel_time(span.rank, op.id);
  const auto* communicator = model.communicator(op);
  if (communicator == nullptr) return facts;
  const double factor = bus_factor(op.kind, communicator->group_size);
  facts.algbw = per_second(op.bytes, facts.transfer);
  facts.busbw = facts.algbw * factor;
  facts.kernel_busbw = per_second(op.bytes, facts.kernel) * factor;
  return facts;
}

std::string title_of(const storage::OpRow& op) {
  if (op.reason == Reason::copy_in) return "copy-in";
  if (op.reason == Reason::copy_out) return "copy-out";
  if (op.kind != OpKind::compute) return std::string(name_of(op.kind));
  if (op.reason == Reason::divide) return "divide gradients";
  if (op.reason == Reason::accumulate) return "add gradients";
  if (op.reason == Reason::clip) return "clip gradients";
  if (op.reason == Reason::unscale) return "unscale gradients";
  if (op.reason == Reason::step) return "optimizer step";
  if (op.reason == Reason::recompute) return "recompute";
  return op.phase == Phase::none ? "compute" : std::string(name_of(op.phase));
}

std::string short_name(const std::string& path) {
  constexpr std::string_view prefix = "model.";
  return path.starts_with(prefix) ? path.substr(prefix.size()) : path;
}

std::int32_t prefetch_distance(TraceModel& model, const SpanRef& span) {
  const RankData& rank = model.rank(span.rank);
  const auto& lane = rank.lane(span.stream)->spans;
  const storage::OpRow& prefetch = model.op(lane.op[span.index]);
  if (prefetch.reason != Reason::backward_prefetch && prefetch.reason != Reason::forward_prefetch) {
    return -1;
  }
  std::set<std::string> between;
  for (const LaneData& other : rank.lanes) {
    if (model.stream(other.spans.stream).role != StreamRole::compute) continue;
    const auto first = std::upper_bound(other.spans.op.begin(), other.spans.op.end(), prefetch.id);
    for (auto it = first; it != other.spans.op.end(); ++it) {
      const storage::OpRow& op = model.op(*it);
      if (op.kind != OpKind::compute) continue;
      if (op.unit == prefetch.unit) return static_cast<std::int32_t>(between.size());
      between.insert(op.unit);
    }
  }
  return -1;
}

}  // namespace tessera::inspector
