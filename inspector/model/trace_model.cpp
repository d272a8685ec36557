// SPDX-License-Identifier: Apache-2.0
#include "inspector/model/trace_model.h"

#include <algorithm>
#include <limits>

namespace tessera::inspector {

OpClass class_of(const storage::OpRow& op) {
  switch (op.kind) {
    case OpKind::all_gather: return OpClass::all_gather;
    case OpKind::reduce_scatter:
    case OpKind::all_to_all:
    case OpKind::reduce: return OpClass::reduce_scatter;
    case OpKind::all_reduce:
    case OpKind::broadcast: return OpClass::all_reduce;
    case OpKind::copy: return OpClass::host;
    default: break;
  }
  switch (op.reason) {
    case Reason::recompute: return OpClass::recompute;
    case Reason::copy_in:  // the engine's own work on buffers
    case Reason::copy_out:
    case Reason::divide:
    case Reason::accumulate: return OpClass::host;
    default: break;
  }
  if (op.phase == Phase::forward) return OpClass::forward;
  return op.phase == Phase::backward ? OpClass::backward : OpClass::optimizer;
}

const LaneData* RankData::lane(std::int32_t stream) const {
  for (const LaneData& lane : lanes) {
    if (lane.spans.stream == stream) return &lane;
  }
  return nullptr;
}

Result<std::unique_ptr<TraceModel>> TraceModel::open(const std::string& path) {
  TESSERA_ASSIGN(Trace trace, Trace::open(path));
  return std::unique_ptr<TraceModel>(new TraceModel(std::move(trace)));
}

TraceModel::TraceModel(Trace trace)
    : Trace(std::move(trace)), figures_(analysis::figures_of(*this)) {}

const analysis::MetricFigures& TraceModel::metric(analysis::Metric metric) {
  const auto known = metrics_.find(metric);
  if (known != metrics_.end()) return known->second;
  return metrics_[metric] = analysis::figures_of(steps(), metric);
}

analysis::SpanFacts TraceModel::facts(const SpanRef& span) {
  const RankData& data = rank(span.rank);
  return analysis::facts_of(*this, data.compute, data.lane(span.stream)->spans, span.index);
}

const RankData& TraceModel::rank(Rank rank) {
  const auto known = ranks_.find(rank);
  if (known != ranks_.end()) return known->second;
  RankData& data = ranks_[rank];
  if (!recorded(rank)) return data;
  auto lanes =
      reader().lanes(rank, std::numeric_limits<Time>::min(), std::numeric_limits<Time>::max());
  if (lanes.ok()) {
    for (storage::Lane& lane : lanes.value()) data.lanes.push_back({std::move(lane), nullptr});
    for (LaneData& lane : data.lanes) {
      std::vector<OpClass> classes;
      classes.reserve(lane.spans.op.size());
      for (std::int32_t id : lane.spans.op) classes.push_back(class_of(op(id)));
      lane.pyramid =
          std::make_unique<SpanPyramid>(lane.spans.begin, lane.spans.end, std::move(classes));
      if (stream(lane.spans.stream).role == StreamRole::compute)
        data.compute.push_back(&lane.spans);
    }
  }
  if (auto memory = reader().memory(rank); memory.ok()) {
    data.memory_samples = std::move(memory).value();
    const auto& s = data.memory_samples;
    data.memory =
        std::make_unique<MemoryPyramid>(s.time, s.memory_class, s.delta, s.allocated, s.reserved);
  }
  return data;
}

std::vector<std::int32_t> TraceModel::lanes_of(Rank wanted) {
  std::vector<std::int32_t> streams;
  for (const LaneData& lane : rank(wanted).lanes) streams.push_back(lane.spans.stream);
  std::stable_sort(streams.begin(), streams.end(), [this](std::int32_t a, std::int32_t b) {
    return stream(a).role < stream(b).role;
  });
  return streams;
}

std::optional<SpanRef> TraceModel::find(Rank wanted, std::int32_t id) {
  const LaneData* lane = rank(wanted).lane(op(id).stream);
  if (lane == nullptr) return {};
  const auto it = std::lower_bound(lane->spans.op.begin(), lane->spans.op.end(), id);
  if (it == lane->spans.op.end() || *it != id) return {};
  return SpanRef{wanted, lane->spans.stream, static_cast<std::size_t>(it - lane->spans.op.begin())};
}

}  // namespace tessera::inspector
