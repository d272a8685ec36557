// SPDX-License-Identifier: Apache-2.0
#include "inspector/model/trace_model.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <set>

#include "inspector/model/forget_old.h"

namespace tessera::inspector {
namespace {

constexpr const char* unfinished_sentence =
    "The recording is unfinished: its last step may be incomplete.";

/// More spans of a rank than this are no longer told apart, and take a while to read.
constexpr std::int64_t spans_in_view = 32'768, samples_in_view = 200'000;

/// The windows of a trace: of spans, and of samples.
Result<std::pair<ViewWindow, ViewWindow>> windows_of(const analysis::Trace& trace) {
  TESSERA_ASSIGN(const storage::RecordedSize size, trace.reader().recorded_size());
  const auto& ranks = trace.run().recorded_ranks;
  const Time end = trace.info().end;
  const auto count = static_cast<std::int64_t>(std::max<std::size_t>(1, ranks.size()));
  std::vector<storage::SpanStretch> spans, samples{{0, end, size.samples / count}};
  if (!ranks.empty() && size.spans / count > spans_in_view) {
    TESSERA_ASSIGN(spans, trace.reader().span_stretches(ranks.front()));
  }
  return std::pair(ViewWindow(std::move(spans), end, spans_in_view),
                   ViewWindow(std::move(samples), end, samples_in_view));
}

}  // namespace

Result<std::unique_ptr<TraceModel>> TraceModel::open(const std::string& path) {
  TESSERA_ASSIGN(Trace trace, Trace::open(path, Check::later));
  TESSERA_ASSIGN(auto windows, windows_of(trace));
  std::unique_ptr<TraceModel> model(
      new TraceModel(std::move(trace), path, std::move(windows.first), std::move(windows.second)));
  TESSERA_ASSIGN(model->classes_, OpClasses::of(model->reader()));
  // A reader of its own: nobody waits for it.
  model->check_ = std::async(std::launch::async, [path]() -> Status {
    TESSERA_ASSIGN(const auto reader, storage::TraceReader::open(path));
    return reader.verify_tables();
  });
  return model;
}

void TraceModel::begin_frame() {
  constexpr std::size_t around_kept = 8;         // of about three steps each
  constexpr std::size_t spans_most = 6'000'000;  // of about 35 bytes
  ++frame_;
  coarse_.begin_frame();
  if (around_.size() > around_kept) around_.clear();
  memories_.begin_frame();
  if (!at_work()) forget_ops();  // threads may look at them
  forget_old(ranks_, frame_, spans_most, [](const RankData& data) { return data.spans; });
}

void TraceModel::take_check() {
  constexpr std::chrono::seconds now{0};
  if (check_.valid() && check_.wait_for(now) == std::future_status::ready) {
    static_cast<void>(await_check());
  }
  for (const Status& status : {ops_problem(), classes_.problem()}) {
    const auto same = [&](const Problem& p) { return p.text == status.message(); };
    if (status.ok() || std::any_of(problems_.begin(), problems_.end(), same)) continue;
    problems_.push_back({status.message(), {}, -1});
  }
  if (const auto problem = memories_.take_problem()) {
    const auto& [rank, status] = *problem;
    problems_.push_back(
        {"Memory of rank " + std::to_string(rank) + ": " + status.message(), {}, rank});
  }
  if (auto problem = metrics_.take_problem()) problems_.push_back({std::move(*problem), {}, -1});
}

Status TraceModel::await_check() {
  if (!check_.valid()) return checked_;
  checked_ = check_.get();
  if (!checked_.ok()) problems_.insert(problems_.begin(), {checked_.message(), {}, -1});
  return checked_;
}

TraceModel::TraceModel(Trace trace, const std::string& path, ViewWindow spans, ViewWindow samples)
    : Trace(std::move(trace)),
      path_(path),
      figures_(analysis::figures_of(*this)),
      spans_window_(std::move(spans)),
      coarse_(path),
      memories_(*this, std::move(samples)) {
  name_classes();
  find_streams();
  using Severity = TraceDiagnostic::Severity;
  for (const storage::DiagnosticRow& row : diagnostics()) {
    if (row.severity != Severity::error && row.severity != Severity::data_loss) continue;
    const bool dated = row.time > 0 || row.code == "out_of_memory";
    problems_.push_back({row.message, dated ? std::optional(row.time) : std::nullopt, row.rank});
  }
  if (info().unfinished) {
    problems_.push_back({unfinished_sentence, {}, -1});
  }
  const auto [begin, end] = step_range(last_step());
  look_at(begin, end);
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
  bool steps = false, others = false;  // an import may not know which pass a kernel is of
  for (const storage::OpRow& op : typical_ops()) {
    if (is_collective(op.kind)) kinds[static_cast<std::size_t>(class_of(op))].insert(op.kind);
    if (op.kind != OpKind::compute || class_of(op) != OpClass::optimizer) continue;
    (op.phase == Phase::none ? others : steps) = true;
  }
  for (std::size_t c = 0; c < kinds.size(); ++c) {
    std::string& name = class_names_[c];
    for (const OpKind kind : kinds[c]) {
      name += std::string(name.empty() ? "" : ", ") + std::string(name_of(kind));
    }
    std::replace(name.begin(), name.end(), '_', '-');
    if (name.empty()) name = name_of(static_cast<OpClass>(c));
  }
  if (others && run().backend == "import") {
    class_names_[static_cast<std::size_t>(OpClass::optimizer)] =
        steps ? "optimizer, other work" : "work";
  }
}

void TraceModel::find_streams() {
  if (!is_long()) return;
  std::set<std::int32_t> used;
  for (const storage::OpRow& op : typical_ops()) {
    if (op.kind != OpKind::wait && op.kind != OpKind::mark) used.insert(op.stream);
  }
  streams_.assign(used.begin(), used.end());
  std::stable_sort(streams_.begin(), streams_.end(), [this](std::int32_t a, std::int32_t b) {
    return stream(a).role < stream(b).role;
  });
}

void TraceModel::look_at(Time from, Time to) {
  if (spans_window_.look_at(from, to)) ranks_.clear();
  memories_.look_at(from, to);
}

void TraceModel::set_patient(bool patient) {
  patient_ = patient;
  coarse_.set_patient(patient);
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
    auto shown = metrics_.shown_findings();
    if (!shown) return nullptr;
    if (!shown->ok()) return &findings_.emplace(shown->status());
    const bool here = patient_ || holds_steps();
    finding_ = std::async(here ? std::launch::deferred : std::launch::async,
                          [this, shown = std::move(*shown).value()]() mutable {
                            return analysis::findings_of(*this, std::move(shown));
                          });
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
  const RankData& data = around(span.rank, op(span.op).step);
  const LaneData* const lane = data.lane(span.stream);
  const auto index = lane == nullptr ? std::nullopt : lane->find(span.op);
  if (!index) return {};
  return analysis::facts_of(*this, data.compute, lane->spans, *index);
}

const TraceModel::Flow& TraceModel::flow(const SpanRef& span) {
  constexpr std::int32_t uses_most = 4;
  if (flow_of_ == span) return flow_;
  flow_of_ = span;
  flow_ = {};
  for (const std::int32_t cause : waited_for(span.op)) {
    if (const auto found = find(span.rank, cause)) flow_.causes.push_back(*found);
  }
  for (const std::int32_t use : waiting_for(span.op, uses_most)) {
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
  if (recorded(rank)) {
    const auto [from, to] = spans_window_.range();
    data = load_rank(*this, classes_, rank, from, to);
  }
  data.used = frame_;
  if (!data.problem.ok()) {
    problems_.push_back(
        {"Operations of rank " + std::to_string(rank) + ": " + data.problem.message(), {}, rank});
  }
  return data;
}

const RankData& TraceModel::around(Rank rank, std::int32_t step) {
  if (!is_long()) return this->rank(rank);
  const auto [it, is_new] = around_.try_emplace({rank, step});
  if (!is_new || !recorded(rank)) return it->second;
  // Without a step, all of them.
  const bool known = step >= 0 && step <= last_step();
  const Time from = step_range(known ? std::max(step - 1, 0) : -1).first;
  const Time to = step_range(known ? std::min(step + 1, last_step()) : -1).second + 1;
  it->second = load_rank(*this, classes_, rank, from, to);
  return it->second;
}

Status TraceModel::problem_of(Rank rank) const {
  const auto known = ranks_.find(rank);
  return known == ranks_.end() ? Status() : known->second.problem;
}

const std::vector<storage::BufferRow>& TraceModel::buffers() {
  if (buffers_) return *buffers_;
  auto read = reader().buffers();
  if (!read.ok()) problems_.push_back({"Buffers: " + read.status().message(), {}, -1});
  return buffers_.emplace(read.ok() ? std::move(read).value() : std::vector<storage::BufferRow>{});
}

std::size_t TraceModel::lane_count(Rank rank, std::size_t guess) const {
  if (is_long()) return std::max<std::size_t>(1, streams_.size());
  const auto known = ranks_.find(rank);
  return std::max<std::size_t>(1, known == ranks_.end() ? guess : known->second.order.size());
}

std::optional<SpanTimes> TraceModel::loaded_times(Rank rank, std::int32_t stream,
                                                  std::int32_t op) const {
  const auto known = ranks_.find(rank);
  const LaneData* const lane = known == ranks_.end() ? nullptr : known->second.lane(stream);
  const auto index = lane == nullptr ? std::nullopt : lane->find(op);
  if (!index) return {};
  return SpanTimes{lane->spans.begin[*index], lane->spans.ready[*index], lane->spans.end[*index]};
}

SpanTimes TraceModel::times(const SpanRef& span) {
  if (const auto loaded = loaded_times(span.rank, span.stream, span.op)) return *loaded;
  const LaneData* const lane = around(span.rank, op(span.op).step).lane(span.stream);
  const auto index = lane == nullptr ? std::nullopt : lane->find(span.op);
  if (!index) return {};
  return {lane->spans.begin[*index], lane->spans.ready[*index], lane->spans.end[*index]};
}

std::optional<SpanRef> TraceModel::find(Rank wanted, std::int32_t id) {
  const storage::OpRow& row = op(id);
  if (loaded_times(wanted, row.stream, id)) return SpanRef{wanted, row.stream, id};
  const LaneData* const lane = around(wanted, row.step).lane(row.stream);
  if (lane == nullptr || !lane->find(id)) return {};
  return SpanRef{wanted, row.stream, id};
}

}  // namespace tessera::inspector
