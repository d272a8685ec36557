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
  auto reader = storage::TraceReader::open(path);
  if (!reader.ok()) return reader.status();
  std::unique_ptr<TraceModel> model(new TraceModel(std::move(reader).value()));
  TESSERA_ASSIGN(model->ops_, model->reader_.ops());
  TESSERA_ASSIGN(model->steps_, model->reader_.rank_steps());
  TESSERA_ASSIGN(model->peaks_, model->reader_.peak_memory());
  TESSERA_ASSIGN(model->diagnostics_, model->reader_.diagnostics());
  TESSERA_ASSIGN(model->kernels_, model->reader_.kernels());
  return model;
}

const storage::OpRow& TraceModel::op(std::int32_t id) const {
  static const storage::OpRow unknown{};
  const auto it = std::lower_bound(
      ops_.begin(), ops_.end(), id,
      [](const storage::OpRow& op, std::int32_t wanted) { return op.id < wanted; });
  return it == ops_.end() || it->id != id ? unknown : *it;
}

const storage::StreamRow& TraceModel::stream(std::int32_t id) const {
  static const storage::StreamRow unknown{-1, "?", StreamRole::host};
  for (const auto& stream : info().streams) {
    if (stream.id == id) return stream;
  }
  return unknown;
}

const storage::CommunicatorRow* TraceModel::communicator(const storage::OpRow& op) const {
  for (const auto& communicator : info().communicators) {
    if (communicator.id == op.communicator) return &communicator;
  }
  return nullptr;
}

std::vector<std::int32_t> TraceModel::waited_for(std::int32_t op) const {
  auto ids = reader_.waited_for(op);
  return ids.ok() ? std::move(ids).value() : std::vector<std::int32_t>{};
}

Time TraceModel::kernel_time(Rank rank, std::int32_t op) const {
  const auto it = std::lower_bound(kernels_.begin(), kernels_.end(), std::pair(op, rank),
                                   [](const storage::KernelRow& row, const auto& wanted) {
                                     return std::pair(row.op, row.rank) < wanted;
                                   });
  return it == kernels_.end() || it->op != op || it->rank != rank ? 0 : it->time;
}

bool TraceModel::recorded(Rank rank) const {
  const auto& ranks = run().recorded_ranks;
  return std::binary_search(ranks.begin(), ranks.end(), rank);
}

const RankData& TraceModel::rank(Rank rank) {
  const auto known = ranks_.find(rank);
  if (known != ranks_.end()) return known->second;
  RankData& data = ranks_[rank];
  if (!recorded(rank)) return data;
  auto lanes =
      reader_.lanes(rank, std::numeric_limits<Time>::min(), std::numeric_limits<Time>::max());
  if (lanes.ok()) {
    for (storage::Lane& lane : lanes.value()) data.lanes.push_back({std::move(lane), nullptr});
    for (LaneData& lane : data.lanes) {
      std::vector<OpClass> classes;
      classes.reserve(lane.spans.op.size());
      for (std::int32_t id : lane.spans.op) classes.push_back(class_of(op(id)));
      lane.pyramid =
          std::make_unique<SpanPyramid>(lane.spans.begin, lane.spans.end, std::move(classes));
    }
  }
  if (auto memory = reader_.memory(rank); memory.ok()) {
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

std::pair<Time, Time> TraceModel::step_range(std::int32_t step) const {
  if (step < 0 || step >= steps_.steps) return {0, std::max<Time>(info().end, 1)};
  const auto first = static_cast<std::ptrdiff_t>(step) * steps_.ranks;
  const auto begin = steps_.begin.begin() + first;
  const auto end = steps_.end.begin() + first;
  return {*std::min_element(begin, begin + steps_.ranks),
          *std::max_element(end, end + steps_.ranks)};
}

Rank TraceModel::slowest_recorded() const {
  Rank slowest = run().recorded_ranks.empty() ? 0 : run().recorded_ranks.front();
  if (steps_.steps == 0) return slowest;
  const auto row = static_cast<std::size_t>(last_step()) * static_cast<std::size_t>(steps_.ranks);
  for (Rank rank : run().recorded_ranks) {
    const auto at = [&](Rank r) { return steps_.compute[row + static_cast<std::size_t>(r)]; };
    if (at(rank) > at(slowest)) slowest = rank;
  }
  return slowest;
}

}  // namespace tessera::inspector
