// SPDX-License-Identifier: Apache-2.0
#include "inspector/model/trace_model.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <set>

namespace tessera::inspector {
namespace {

constexpr const char* unfinished_sentence =
    "The recording is unfinished: its last step may be incomplete.";

}  // namespace

OpClass class_of(const storage::OpRow& op) {
  switch (op.kind) {
    case OpKind::all_gather: return OpClass::all_gather;
    case OpKind::reduce_scatter: return OpClass::reduce_scatter;
    case OpKind::all_reduce: return OpClass::all_reduce;
    case OpKind::broadcast: return OpClass::broadcast;
    case OpKind::all_to_all: return OpClass::all_to_all;
    case OpKind::reduce: return OpClass::reduce;
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
  TESSERA_ASSIGN(Trace trace, Trace::open(path, Check::later));
  std::unique_ptr<TraceModel> model(new TraceModel(std::move(trace)));
  model->path_ = path;
  // A reader of its own: nobody waits for it.
  model->check_ = std::async(std::launch::async, [path]() -> Status {
    TESSERA_ASSIGN(const auto reader, storage::TraceReader::open(path));
    return reader.verify_tables();
  });
  return model;
}

namespace {

// Forgets what was looked at longest ago, until what is left is few enough or all in use.
template <class OfRanks, class Size>
void forget_old(OfRanks& ranks, std::int64_t frame, std::size_t most, Size size_of) {
  constexpr std::int64_t in_use = 3;  // frames
  std::size_t sum = 0;
  for (const auto& [rank, data] : ranks) sum += size_of(data);
  while (sum > most) {
    const auto oldest = std::min_element(
        ranks.begin(), ranks.end(),
        [](const auto& a, const auto& b) { return a.second.used < b.second.used; });
    if (oldest->second.used + in_use > frame) return;
    sum -= size_of(oldest->second);
    ranks.erase(oldest);
  }
}

}  // namespace

void TraceModel::begin_frame() {
  constexpr std::size_t spans_most = 6'000'000;    // of about 35 bytes
  constexpr std::size_t samples_most = 4'000'000;  // of about 40 bytes
  ++frame_;
  forget_old(ranks_, frame_, spans_most, [](const RankData& data) { return data.spans; });
  forget_old(memories_, frame_, samples_most,
             [](const RankMemory& memory) { return memory.samples.time.size(); });
}

void TraceModel::take_check() {
  constexpr std::chrono::seconds now{0};
  if (check_.valid() && check_.wait_for(now) == std::future_status::ready) {
    static_cast<void>(await_check());
  }
  if (auto problem = metrics_.take_problem()) problems_.push_back({std::move(*problem), {}, -1});
}

Status TraceModel::await_check() {
  if (!check_.valid()) return checked_;
  checked_ = check_.get();
  if (!checked_.ok()) problems_.insert(problems_.begin(), {checked_.message(), {}, -1});
  return checked_;
}

TraceModel::TraceModel(Trace trace)
    : Trace(std::move(trace)), figures_(analysis::figures_of(*this)) {
  name_classes();
  using Severity = TraceDiagnostic::Severity;
  for (const storage::DiagnosticRow& row : diagnostics()) {
    if (row.severity != Severity::error && row.severity != Severity::data_loss) continue;
    const bool dated = row.time > 0 || row.code == "out_of_memory";
    problems_.push_back({row.message, dated ? std::optional(row.time) : std::nullopt, row.rank});
  }
  if (info().unfinished) {
    problems_.push_back({unfinished_sentence, {}, -1});
  }
}

std::vector<Rank> TraceModel::loaded_ranks() const {
  constexpr std::size_t most = 64;
  std::vector<Rank> ranks;
  for (const auto& [rank, data] : ranks_) {
    if (ranks.size() < most) ranks.push_back(rank);
  }
  return ranks;
}

void TraceModel::forgive_unfinished() {
  std::erase_if(problems_, [](const Problem& p) { return p.text == unfinished_sentence; });
}

void TraceModel::name_classes() {
  std::array<std::set<OpKind>, op_class_count> kinds;
  for (const storage::OpRow& op : ops()) {
    if (is_collective(op.kind)) kinds[static_cast<std::size_t>(class_of(op))].insert(op.kind);
  }
  for (std::size_t c = 0; c < kinds.size(); ++c) {
    std::string& name = class_names_[c];
    for (const OpKind kind : kinds[c]) {
      name += std::string(name.empty() ? "" : ", ") + std::string(name_of(kind));
    }
    std::replace(name.begin(), name.end(), '_', '-');
    if (name.empty()) name = name_of(static_cast<OpClass>(c));
  }
}

void TraceModel::set_patient(bool patient) {
  patient_ = patient;
  metrics_.set_patient(patient);
}

Time TraceModel::step_begin(std::int32_t step, Rank rank) {
  constexpr std::size_t begins_kept = 4096;
  if (rank < 0 || rank >= rank_count()) return step_range(step).first;
  const auto known = step_begins_.find({step, rank});
  if (known != step_begins_.end()) return known->second;
  const auto rows = step_rows(step);
  if (step_begins_.size() >= begins_kept) step_begins_.clear();
  // What cannot be read is named where numbers are shown; a line may stand where ranks begin.
  const Time begin =
      rows.ok() ? rows->begin[static_cast<std::size_t>(rank)] : step_range(step).first;
  return step_begins_[{step, rank}] = begin;
}

const Result<std::vector<analysis::Finding>>* TraceModel::findings() {
  constexpr std::chrono::seconds now{0};
  if (findings_) return &*findings_;
  if (!finding_.valid()) {
    const bool here = patient_ || holds_steps();
    finding_ = std::async(here ? std::launch::deferred : std::launch::async,
                          [this] { return analysis::findings_of(*this); });
    if (here) finding_.wait();
  }
  if (finding_.wait_for(now) == std::future_status::timeout) return nullptr;
  return &findings_.emplace(finding_.get());
}

const Result<analysis::CriticalPath>& TraceModel::critical_path(std::int32_t step) {
  constexpr std::size_t paths_kept = 16;
  const auto known = paths_.find(step);
  if (known != paths_.end()) return known->second;
  if (paths_.size() >= paths_kept) paths_.clear();
  return paths_.emplace(step, analysis::critical_path(*this, step)).first->second;
}

analysis::SpanFacts TraceModel::facts(const SpanRef& span) {
  const RankData& data = rank(span.rank);
  return analysis::facts_of(*this, data.compute, data.lane(span.stream)->spans, span.index);
}

const TraceModel::Flow& TraceModel::flow(const SpanRef& span) {
  constexpr std::int32_t uses_most = 4;
  if (flow_of_ == span) return flow_;
  flow_of_ = span;
  flow_ = {};
  const std::int32_t id = rank(span.rank).lane(span.stream)->spans.op[span.index];
  for (const std::int32_t cause : waited_for(id)) {
    if (const auto found = find(span.rank, cause)) flow_.causes.push_back(*found);
  }
  for (const std::int32_t use : waiting_for(id, uses_most)) {
    if (const auto found = find(span.rank, use)) flow_.uses.push_back(*found);
  }
  return flow_;
}

const RankData& TraceModel::rank(Rank rank) {
  const auto known = ranks_.find(rank);
  if (known != ranks_.end()) {
    known->second.used = frame_;
    return known->second;
  }
  RankData& data = ranks_[rank];
  data.used = frame_;
  if (!recorded(rank)) return data;
  auto lanes =
      reader().lanes(rank, std::numeric_limits<Time>::min(), std::numeric_limits<Time>::max());
  if (!lanes.ok()) {
    data.problem = lanes.status();
    problems_.push_back(
        {"Operations of rank " + std::to_string(rank) + ": " + data.problem.message(), {}, rank});
    return data;
  }
  for (storage::Lane& lane : lanes.value()) data.lanes.push_back({std::move(lane), nullptr});
  for (LaneData& lane : data.lanes) {
    data.spans += lane.spans.op.size();
    std::vector<OpClass> classes;
    classes.reserve(lane.spans.op.size());
    for (std::int32_t id : lane.spans.op) classes.push_back(class_of(op(id)));
    const storage::Lane& spans = lane.spans;
    lane.pyramid =
        std::make_unique<SpanPyramid>(spans.begin, spans.ready, spans.end, std::move(classes));
    if (stream(spans.stream).role == StreamRole::compute) data.compute.push_back(&spans);
    data.order.push_back(spans.stream);
  }
  std::stable_sort(data.order.begin(), data.order.end(), [this](std::int32_t a, std::int32_t b) {
    return stream(a).role < stream(b).role;
  });
  return data;
}

const std::vector<storage::BufferRow>& TraceModel::buffers() {
  if (buffers_) return *buffers_;
  auto read = reader().buffers();
  if (!read.ok()) problems_.push_back({"Buffers: " + read.status().message(), {}, -1});
  return buffers_.emplace(read.ok() ? std::move(read).value() : std::vector<storage::BufferRow>{});
}

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

const RankMemory& TraceModel::memory(Rank rank) {
  const auto known = memories_.find(rank);
  if (known != memories_.end()) {
    known->second.used = frame_;
    return known->second;
  }
  RankMemory& memory = memories_[rank];
  memory.used = frame_;
  if (!recorded(rank)) return memory;
  auto samples = reader().memory(rank);
  if (!samples.ok()) {
    memory.problem = samples.status();
    problems_.push_back(
        {"Memory of rank " + std::to_string(rank) + ": " + memory.problem.message(), {}, rank});
    return memory;
  }
  memory.samples = std::move(samples).value();
  const auto& s = memory.samples;
  if (s.time.empty()) return memory;
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
  return memory;
}

std::size_t TraceModel::lane_count(Rank rank, std::size_t guess) const {
  const auto known = ranks_.find(rank);
  return std::max<std::size_t>(1, known == ranks_.end() ? guess : known->second.order.size());
}

std::optional<SpanRef> TraceModel::find(Rank wanted, std::int32_t id) {
  const LaneData* lane = rank(wanted).lane(op(id).stream);
  if (lane == nullptr) return {};
  const auto it = std::lower_bound(lane->spans.op.begin(), lane->spans.op.end(), id);
  if (it == lane->spans.op.end() || *it != id) return {};
  return SpanRef{wanted, lane->spans.stream, static_cast<std::size_t>(it - lane->spans.op.begin())};
}

}  // namespace tessera::inspector
