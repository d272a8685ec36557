// SPDX-License-Identifier: Apache-2.0
#include "analysis/step_graph.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <utility>

#include "analysis/habits.h"
#include "analysis/id_places.h"

namespace tessera::analysis {
namespace {

constexpr int looked_back = 64;         // spans of a rank that may be what the host waited for
constexpr int repeated_max = 24;        // steps until all are shortened alike
constexpr Time launch_time_max = 5000;  // ns between kernels that no late host explains

Time scaled(Time duration, double share) {
  return duration - static_cast<Time>(std::llround(static_cast<double>(duration) * share));
}

}  // namespace

/// Finds out what each span waited for, in the order of ids.
class StepGraph::Builder {
 public:
  Builder(const Trace& trace, StepGraph& graph)
      : trace_(trace), graph_(graph), habits_(habits_of(trace)) {}

  Status read(std::int32_t step, std::span<const Rank> ranks);
  void link();

 private:
  /// What is asked again and again of an op.
  struct OpFacts {
    std::int32_t step, communicator, micro_batch;
    bool collective;
  };
  /// What is known of a rank so far.
  struct RankState {
    std::map<std::int32_t, std::int32_t> by_stream, by_communicator;  // the last span
    std::vector<std::pair<Time, std::int32_t>> spans;                 // their ends beside them
    std::int32_t host_bound = -1;                                     // the last one
  };

  const StepSpan& at(std::int32_t i) const { return graph_.spans_[static_cast<std::size_t>(i)]; }
  std::int32_t find(std::int32_t op, Rank rank) const;
  /// Of the step before, too: a host that is late there may still be.
  bool explained(const OpFacts& op) const { return op.step >= step_ - 1; }
  void collect(const std::vector<StepSpan>& spans);
  void collect_needs(std::int32_t i, const OpFacts& op, RankState& rank);
  void explain(std::int32_t i, std::size_t first_need, RankState& rank);
  std::int32_t latest_before(Time begin, const RankState& rank) const;
  bool host_busy(std::int32_t i, std::size_t first_need, const RankState& rank) const;
  void meet(const Range& range, bool collective);
  void find_twins();
  void read_waits();

  const Trace& trace_;
  StepGraph& graph_;
  const Habits habits_;
  std::int32_t step_ = 0;
  std::map<Rank, RankState> ranks_;
  std::vector<OpFacts> facts_;  // by place in graph_.ops_
  IdPlaces places_;             // in graph_.ops_
  storage::OpWaits waits_;      // of ops that are explained
  std::vector<std::int32_t> order_;
};

Status StepGraph::Builder::read(std::int32_t step, std::span<const Rank> ranks) {
  step_ = step;
  // Streams run ahead of steps.
  const Time from = trace_.step_range(std::max(0, step - 2)).first;
  const Time to = trace_.step_range(std::min(step + 1, trace_.last_step())).second + 1;
  std::vector<StepSpan> spans;
  for (const Rank rank : ranks) {
    TESSERA_ASSIGN(const auto lanes, trace_.reader().lanes(rank, from, to));
    for (const storage::Lane& lane : lanes) {
      if (habits_.annotates && trace_.stream(lane.stream).role == StreamRole::host) continue;
      for (std::size_t i = 0; i < lane.op.size(); ++i) {
        spans.push_back({.op = lane.op[i],
                         .rank = rank,
                         .stream = lane.stream,
                         .begin = lane.begin[i],
                         .ready = lane.ready[i],
                         .end = lane.end[i]});
      }
    }
  }
  collect(spans);
  return {};
}

// In the order of ops, those of an op in that of `spans`, which is the one of ranks; and what each
// op is, asked once.
void StepGraph::Builder::collect(const std::vector<StepSpan>& spans) {
  std::vector<std::uint64_t> order;  // op, then place; readers refuse negative ids
  order.reserve(spans.size());
  for (const StepSpan& span : spans) {
    order.push_back(std::uint64_t{static_cast<std::uint32_t>(span.op)} << 32 | order.size());
  }
  std::sort(order.begin(), order.end());
  graph_.spans_.reserve(spans.size());
  const auto id_at = [&](std::size_t k) { return static_cast<std::int32_t>(order[k] >> 32); };
  for (std::size_t k = 0; k < order.size();) {
    const std::int32_t id = id_at(k);
    const storage::OpRow& op = trace_.op(id);
    const auto first = static_cast<std::int32_t>(graph_.spans_.size());
    for (; k < order.size() && id_at(k) == id; ++k) {
      if (op.step > step_) continue;
      graph_.spans_.push_back(spans[static_cast<std::uint32_t>(order[k])]);
      graph_.spans_.back().fixed = op.step < step_;
    }
    if (op.step > step_) continue;
    graph_.ops_.push_back({id, first, static_cast<std::int32_t>(graph_.spans_.size())});
    facts_.push_back({op.step, op.communicator, op.micro_batch, is_collective(op.kind)});
  }
  places_ = IdPlaces(graph_.ops_, [](const Range& range) { return range.op; });
  for (const StepSpan& span : graph_.spans_) {
    graph_.begins_.push_back(span.begin);
    graph_.ends_.push_back(span.end);
  }
}

std::int32_t StepGraph::Builder::find(std::int32_t op, Rank rank) const {
  const std::int32_t place = places_.find(op);
  if (place < 0) return -1;
  const Range& range = graph_.ops_[static_cast<std::size_t>(place)];
  const auto begin = graph_.spans_.begin();
  const auto end = begin + range.end;
  const auto it = std::lower_bound(begin + range.first, end, rank,
                                   [](const StepSpan& s, Rank wanted) { return s.rank < wanted; });
  return it == end || it->rank != rank ? -1 : static_cast<std::int32_t>(it - begin);
}

void StepGraph::Builder::collect_needs(std::int32_t i, const OpFacts& op, RankState& rank) {
  const StepSpan& span = at(i);
  const auto need = [&](std::int32_t other) {
    // What ends later was not needed: a clock that was set, a wait that was not one.
    if (other >= 0 && at(other).end <= span.begin) graph_.needs_.push_back(other);
  };
  const auto last = [&](std::map<std::int32_t, std::int32_t>& of, std::int32_t key) {
    const auto [it, is_new] = of.try_emplace(key, -1);
    if (!is_new) need(it->second);
    it->second = i;
  };
  last(rank.by_stream, span.stream);
  if (op.communicator >= 0) last(rank.by_communicator, op.communicator);
  if (!explained(op)) return;
  for (const std::int32_t id : waits_.of(span.op)) {
    if (id < span.op) need(find(id, span.rank));
  }
}

// The span of the rank that was the last to end before.
std::int32_t StepGraph::Builder::latest_before(Time begin, const RankState& rank) const {
  std::int32_t latest = -1;
  const std::size_t back = std::min<std::size_t>(looked_back, rank.spans.size());
  Time latest_end = std::numeric_limits<Time>::min();
  for (std::size_t k = rank.spans.size() - back; k < rank.spans.size(); ++k) {
    const auto& [end, other] = rank.spans[k];
    if (end > begin || end < latest_end) continue;
    latest = other;
    latest_end = end;
  }
  return latest;
}

// Nothing that was recorded kept span `i`: whether the host, since it issued the last one that it
// was late for, was busy issuing. Otherwise it had waited, too.
bool StepGraph::Builder::host_busy(std::int32_t i, std::size_t first_need,
                                   const RankState& rank) const {
  if (rank.host_bound < 0 || at(rank.host_bound).begin > at(i).begin) return false;
  const auto facts_of = [&](std::int32_t span) {
    return facts_[static_cast<std::size_t>(places_.find(at(span).op))];
  };
  const OpFacts op = facts_of(i), before = facts_of(rank.spans.back().second);
  if (op.step != before.step || op.micro_batch != before.micro_batch) return false;
  if (rank.spans.back().second == rank.host_bound) return true;
  // On a device the last one started when the device came to it, so the host was ahead.
  if (!habits_.exact && !habits_.one_by_one) return false;
  for (std::size_t k = first_need; k < graph_.needs_.size(); ++k) {
    const StepSpan& other = at(graph_.needs_[k]);
    if (other.stream != at(i).stream && other.end > at(rank.host_bound).begin) return false;
  }
  return true;
}

void StepGraph::Builder::explain(std::int32_t i, std::size_t first_need, RankState& rank) {
  StepSpan& span = graph_.spans_[static_cast<std::size_t>(i)];
  std::int32_t latest = -1;
  for (std::size_t k = first_need; k < graph_.needs_.size(); ++k) {
    const std::int32_t other = graph_.needs_[k];
    if (latest < 0 || at(other).end > at(latest).end) latest = other;
  }
  Time late = latest < 0 ? 1 : span.begin - at(latest).end;
  const bool launched = !habits_.exact && latest >= 0 && late <= launch_time_max &&
                        late <= (at(latest).end - at(latest).begin) / 5;
  if (late > 0 && !launched) {
    const std::int32_t any = latest_before(span.begin, rank);
    if (habits_.one_by_one || (habits_.exact && any >= 0 && at(any).end == span.begin)) {
      latest = any;
    } else {
      span.after_begin = host_busy(i, first_need, rank);
      latest = span.after_begin ? rank.host_bound : any;
      rank.host_bound = i;
    }
  }
  span.bound = latest;
  if (latest >= 0) span.lag = span.begin - (span.after_begin ? at(latest).begin : at(latest).end);
}

// Members that met have the same moment at which the last of them came.
void StepGraph::Builder::meet(const Range& range, bool collective) {
  std::vector<std::int32_t>& order = order_;
  order.resize(static_cast<std::size_t>(range.end - range.first));
  std::iota(order.begin(), order.end(), range.first);
  const auto sooner = [&](std::int32_t a, std::int32_t b) { return at(a).ready < at(b).ready; };
  if (collective && !std::is_sorted(order.begin(), order.end(), sooner)) {
    std::stable_sort(order.begin(), order.end(), sooner);
  }
  for (std::size_t k = 0; k < order.size();) {
    std::size_t end = k + 1;
    while (collective && end < order.size() && at(order[end]).ready == at(order[k]).ready) ++end;
    const auto first = static_cast<std::int32_t>(graph_.meeting_.size());
    for (; k < end; ++k) {
      const auto i = static_cast<std::size_t>(order[k]);
      graph_.meeting_at_[i] = first;
      graph_.meeting_.push_back(order[k]);
    }
    graph_.meeting_size_.resize(graph_.meeting_.size(),
                                static_cast<std::int32_t>(graph_.meeting_.size()) - first);
  }
}

// Steps that are alike have ids that are the same numbers apart. What was submitted between them
// belongs to none, such as the reading of a loss: it moves as the last one before it does.
void StepGraph::Builder::find_twins() {
  graph_.twins_.assign(graph_.spans_.size(), -1);
  std::int32_t first = -1, before = -1;
  for (const StepSpan& span : graph_.spans_) {
    if (!span.fixed && first < 0) first = span.op;
  }
  std::int64_t own = 0, paired = 0;
  std::map<Rank, std::int32_t> last;
  std::size_t place = 0;
  for (std::size_t i = 0; i < graph_.spans_.size(); ++i) {
    const StepSpan& span = graph_.spans_[i];
    own += !span.fixed;
    if (!span.fixed) continue;
    while (graph_.ops_[place].op != span.op) ++place;
    if (facts_[place].step != step_ - 1) {
      if (const auto of = last.find(span.rank); of != last.end()) graph_.twins_[i] = of->second;
      continue;
    }
    if (before < 0) before = span.op;
    const std::int32_t twin = find(span.op + first - before, span.rank);
    if (twin < 0 || at(twin).fixed || at(twin).stream != span.stream) continue;
    graph_.twins_[i] = last[span.rank] = twin;
    ++paired;
  }
  graph_.repeats_ = own > 0 && own == paired;
}

// Of all at once: a question for each takes longer than all else.
void StepGraph::Builder::read_waits() {
  if (graph_.ops_.empty()) return;
  const std::int64_t end = std::int64_t{graph_.ops_.back().op} + 1;
  auto waits = trace_.reader().waits(graph_.ops_.front().op, end);
  if (waits.ok()) waits_ = std::move(waits).value();
}

void StepGraph::Builder::link() {
  read_waits();
  find_twins();
  graph_.meeting_at_.resize(graph_.spans_.size());
  for (std::size_t k = 0; k < graph_.ops_.size(); ++k) {
    const Range& range = graph_.ops_[k];
    for (std::int32_t i = range.first; i < range.end; ++i) {
      RankState& rank = ranks_[at(i).rank];
      const std::size_t first_need = graph_.needs_.size();
      collect_needs(i, facts_[k], rank);
      if (explained(facts_[k])) explain(i, first_need, rank);
      rank.spans.emplace_back(at(i).end, i);
      graph_.needs_end_.push_back(static_cast<std::int32_t>(graph_.needs_.size()));
    }
    meet(range, facts_[k].collective);
  }
}

Result<StepGraph> StepGraph::read(const Trace& trace, std::int32_t step,
                                  std::span<const Rank> ranks) {
  StepGraph graph;
  Builder builder(trace, graph);
  TESSERA_TRY(builder.read(step, ranks));
  builder.link();
  return graph;
}

std::span<const std::int32_t> StepGraph::members(std::int32_t i) const {
  const auto first = static_cast<std::size_t>(meeting_at_[static_cast<std::size_t>(i)]);
  return std::span(meeting_).subspan(first, static_cast<std::size_t>(meeting_size_[first]));
}

// Those that meet at `first` move data once the last has come. Members that were not recorded come
// as much later as they did.
void StepGraph::end_meeting(std::size_t first, const std::vector<Time>& begins, const Marks& marked,
                            double share, std::vector<Time>& ends) const {
  const auto all =
      std::span(meeting_).subspan(first, static_cast<std::size_t>(meeting_size_[first]));
  Time came = std::numeric_limits<Time>::min(), recorded = came;
  for (const std::int32_t m : all) {
    came = std::max(came, begins[static_cast<std::size_t>(m)]);
    recorded = std::max(recorded, spans_[static_cast<std::size_t>(m)].begin);
  }
  for (const std::int32_t m : all) {
    const auto i = static_cast<std::size_t>(m);
    const StepSpan& span = spans_[i];
    const Time work = span.end - span.ready;
    ends[i] = came + span.ready - recorded + (marked[i] != 0 ? scaled(work, share) : work);
  }
}

// Into `now`. `earlier`: by how much the step before has been moved, a number for each span of this
// one. `moved`: it has been; otherwise `begins` and `now` have what was recorded of it.
void StepGraph::lay_out(const Marks& marked, double share, bool host, bool moved,
                        Ends& laid_out) const {
  std::vector<Time>& begins = laid_out.begins;
  std::vector<Time>& ends = laid_out.now;
  const std::vector<Time>& earlier = laid_out.earlier;
  const auto begin_of = [&](std::size_t i) {
    const StepSpan& span = spans_[i];
    if (span.bound < 0) return span.begin;
    const auto by = static_cast<std::size_t>(span.bound);
    const Time lag = host && span.lag > 0 ? scaled(span.lag, share) : span.lag;
    Time begin = (span.after_begin ? begins[by] : ends[by]) + lag;
    for (auto k = i == 0 ? 0 : needs_end_[i - 1]; k < needs_end_[i]; ++k) {
      begin = std::max(begin, ends[static_cast<std::size_t>(needs_[static_cast<std::size_t>(k)])]);
    }
    return begin;
  };
  for (const Range& range : ops_) {
    const bool fixed = spans_[static_cast<std::size_t>(range.first)].fixed;
    if (fixed && !moved) continue;
    for (auto i = static_cast<std::size_t>(range.first); i < static_cast<std::size_t>(range.end);
         ++i) {
      if (!fixed) {
        begins[i] = begin_of(i);
        continue;
      }
      const std::int32_t twin = twins_[i];
      const Time by = twin < 0 ? 0 : earlier[static_cast<std::size_t>(twin)];
      begins[i] = spans_[i].begin - by;
      ends[i] = spans_[i].end - by;
    }
    if (fixed) continue;
    // The spans of an op are as many places of meeting_.
    for (std::int32_t first = range.first; first < range.end;
         first += meeting_size_[static_cast<std::size_t>(first)]) {
      end_meeting(static_cast<std::size_t>(first), begins, marked, share, ends);
    }
  }
}

void StepGraph::ends_if(const Marks& marked, double share, bool host, Ends& ends) const {
  ends.before = ends.now = ends_;
  ends.begins = begins_;
  if (!repeats_) return lay_out(marked, share, host, /*moved=*/false, ends);
  ends.earlier.resize(spans_.size());
  for (int step = 0; step < repeated_max; ++step) {
    if (step > 0) std::swap(ends.before, ends.now);
    lay_out(marked, share, host, step > 0, ends);
    Time least = std::numeric_limits<Time>::max(), most = std::numeric_limits<Time>::min();
    for (std::size_t i = 0; i < spans_.size(); ++i) {
      ends.earlier[i] = ends_[i] - ends.now[i];
      if (spans_[i].fixed) continue;
      least = std::min(least, ends.before[i] - ends.now[i]);
      most = std::max(most, ends.before[i] - ends.now[i]);
    }
    if (least == most) break;
  }
}

}  // namespace tessera::analysis
