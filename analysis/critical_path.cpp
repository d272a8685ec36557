// SPDX-License-Identifier: Apache-2.0
#include "tessera/analysis/critical_path.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <map>
#include <optional>

#include "analysis/operation_name.h"
#include "analysis/step_graph.h"
#include "tessera/analysis/median.h"
#include "tessera/analysis/metrics.h"

namespace tessera::analysis {
namespace {

constexpr std::size_t path_ranks_max = 256;
constexpr std::size_t path_units_max = 8, path_slow_ranks_max = 4;
constexpr const char* host_row = "host";

// Those that computed longest: who is not among them waits for one that is.
std::vector<Rank> ranks_of(const Trace& trace, const storage::RankSteps& rows) {
  std::vector<Rank> ranks = trace.run().recorded_ranks;
  if (ranks.size() <= path_ranks_max) return ranks;
  const auto compute = [&](Rank rank) { return rows.compute[static_cast<std::size_t>(rank)]; };
  std::stable_sort(ranks.begin(), ranks.end(),
                   [&](Rank a, Rank b) { return compute(a) > compute(b); });
  ranks.resize(path_ranks_max);
  std::sort(ranks.begin(), ranks.end());
  return ranks;
}

// What the step ends with: copies that nobody waits for may end later.
std::int32_t last_span(const Trace& trace, const StepGraph& graph, const storage::RankSteps& rows) {
  std::int32_t last = -1;
  for (std::size_t i = 0; i < graph.spans().size(); ++i) {
    const StepSpan& span = graph.spans()[i];
    const bool computes = trace.stream(span.stream).role == StreamRole::compute;
    if (span.fixed || (!computes && span.end > rows.end[static_cast<std::size_t>(span.rank)]))
      continue;
    if (last < 0 || span.end > graph.spans()[static_cast<std::size_t>(last)].end) {
      last = static_cast<std::int32_t>(i);
    }
  }
  return last;
}

std::string unit_or_module(const storage::OpRow& op) {
  return op.unit.empty() ? op.module : op.unit;
}

/// Backwards from the last span: what each began after.
class PathWalk {
 public:
  PathWalk(const StepGraph& graph, Time begin, std::vector<PathSegment>& out)
      : graph_(graph), begin_(begin), out_(out) {}

  void from(std::int32_t last) {
    std::int32_t i = last;
    Time time = at(i).end;
    bool ended = true;  // `time` is the span's end, not its begin
    while (time > begin_ && !at(i).fixed) {
      if (ended) {
        time = add(i, at(i).ready, time, PathPart::work);
        i = latest_member(i);
        time = add(i, at(i).begin, time, PathPart::wait);
      }
      const StepSpan& late = at(i);
      if (late.bound < 0) break;
      ended = !late.after_begin;
      time = add(i, ended ? at(late.bound).end : at(late.bound).begin, time, PathPart::host);
      i = late.bound;
    }
    // Nothing that was recorded explains the rest.
    add(i, begin_, time, at(i).fixed ? PathPart::work : PathPart::host);
    std::reverse(out_.begin(), out_.end());
  }

 private:
  const StepSpan& at(std::int32_t i) const { return graph_.spans()[static_cast<std::size_t>(i)]; }

  std::int32_t latest_member(std::int32_t i) const {
    std::int32_t latest = i;
    for (const std::int32_t m : graph_.members(i)) {
      if (at(m).begin > at(latest).begin) latest = m;
    }
    return latest;
  }

  Time add(std::int32_t i, Time from, Time to, PathPart part) {
    from = std::max(from, begin_);
    if (from >= to) return to;
    const StepSpan& span = at(i);
    out_.push_back({from, to, part, span.rank, span.stream, span.op});
    return from;
  }

  const StepGraph& graph_;
  const Time begin_;
  std::vector<PathSegment>& out_;
};

/// Rows of the table, and which spans each would shorten.
class PathTable {
 public:
  PathTable(const Trace& trace, const StepGraph& graph, const std::vector<Rank>& ranks,
            CriticalPath& path)
      : trace_(trace), graph_(graph), ranks_(ranks), path_(path) {}

  void fill(std::int32_t last) {
    for (const PathSegment& segment : path_.segments) add_segment(segment);
    keep_longest(PathGroup::unit, path_units_max);
    keep_longest(PathGroup::rank, path_slow_ranks_max);
    find_rows_of_spans();
    for (auto& [key, row] : rows_) {
      row.gain = gain_of(row, last);
      path_.rows.push_back(row);
    }
    std::stable_sort(path_.rows.begin(), path_.rows.end(),
                     [](const Shortening& a, const Shortening& b) {
                       return a.group != b.group ? a.group < b.group : a.gain > b.gain;
                     });
  }

 private:
  using Key = std::pair<PathGroup, std::string>;
  static constexpr std::array groups = {PathGroup::operation, PathGroup::unit, PathGroup::rank};

  void add_segment(const PathSegment& segment) {
    if (segment.part == PathPart::host) add({PathGroup::operation, host_row}, segment);
    if (segment.part != PathPart::work) return;
    for (const PathGroup group : groups) {
      if (const auto key = key_of(group, trace_.op(segment.op), segment.rank)) add(*key, segment);
    }
  }

  void add(const Key& key, const PathSegment& segment) {
    Shortening& row = rows_[key];
    row.group = key.first;
    row.what = key.second;
    row.on_path += segment.to - segment.from;
    Time& longest = longest_[key];
    if (segment.to - segment.from <= longest) return;
    longest = segment.to - segment.from;
    row.op = segment.op;
    row.rank = segment.rank;
  }

  std::optional<Key> key_of(PathGroup group, const storage::OpRow& op, Rank rank) const {
    if (group == PathGroup::operation) return Key{group, operation_of(op)};
    if (group == PathGroup::unit) {
      std::string unit = unit_or_module(op);
      return unit.empty() ? std::nullopt : std::optional(Key{group, std::move(unit)});
    }
    if (path_.ranks < 2 || is_collective(op.kind)) return {};
    return Key{group, fmt::format("rank {}", rank)};
  }

  void keep_longest(PathGroup group, std::size_t count) {
    std::vector<std::pair<Time, Key>> rows;
    for (const auto& [key, row] : rows_) {
      if (key.first == group) rows.emplace_back(-row.on_path, key);
    }
    std::sort(rows.begin(), rows.end());
    for (std::size_t k = count; k < rows.size(); ++k) rows_.erase(rows[k].second);
  }

  const Shortening* row_of(PathGroup group, const storage::OpRow& op, Rank rank) const {
    const auto key = key_of(group, op, rank);
    const auto found = key ? rows_.find(*key) : rows_.end();
    return found == rows_.end() ? nullptr : &found->second;
  }

  // Texts are compared once per op, and per rank.
  void find_rows_of_spans() {
    std::map<Rank, const Shortening*> of_rank;
    for (const Rank rank : ranks_) of_rank[rank] = row_of(PathGroup::rank, {}, rank);
    for (auto& rows : rows_of_spans_) rows.assign(graph_.spans().size(), nullptr);
    std::int32_t id = -1;
    const Shortening *operation = nullptr, *unit = nullptr;
    bool own = false;
    for (std::size_t i = 0; i < graph_.spans().size(); ++i) {
      const StepSpan& span = graph_.spans()[i];
      if (span.fixed) continue;
      if (span.op != id) {
        const storage::OpRow& op = trace_.op(span.op);
        operation = row_of(PathGroup::operation, op, span.rank);
        unit = row_of(PathGroup::unit, op, span.rank);
        own = !is_collective(op.kind);
      }
      id = span.op;
      rows_of(PathGroup::operation)[i] = operation;
      rows_of(PathGroup::unit)[i] = unit;
      if (own) rows_of(PathGroup::rank)[i] = of_rank[span.rank];
      if (trace_.stream(span.stream).role != StreamRole::compute) continue;
      computing_.push_back(static_cast<std::int32_t>(i));
    }
  }

  // All steps get shorter, so what comes before ends earlier, too.
  Time gain_of(const Shortening& row, std::int32_t last) {
    const auto& rows = rows_of(row.group);
    marked_.resize(rows.size());
    for (std::size_t i = 0; i < rows.size(); ++i) marked_[i] = rows[i] == &row ? 1 : 0;
    const bool host = row.group == PathGroup::operation && row.what == host_row;
    graph_.ends_if(marked_, shortened_by, host, ends_);
    return std::max<Time>(0, end_of(ends_.before, last) - end_of(ends_.now, last));
  }

  // Another rank than now may be the last.
  Time end_of(const std::vector<Time>& ends, std::int32_t last) const {
    Time end = ends[static_cast<std::size_t>(last)];
    for (const std::int32_t i : computing_) end = std::max(end, ends[static_cast<std::size_t>(i)]);
    return end;
  }

  const Trace& trace_;
  const StepGraph& graph_;
  const std::vector<Rank>& ranks_;
  CriticalPath& path_;
  std::map<Key, Shortening> rows_;
  std::map<Key, Time> longest_;
  using RowsOfSpans = std::vector<const Shortening*>;
  RowsOfSpans& rows_of(PathGroup group) { return rows_of_spans_[static_cast<std::size_t>(group)]; }

  std::array<RowsOfSpans, groups.size()> rows_of_spans_;  // null: the span would not be shorter
  std::vector<std::int32_t> computing_;                   // spans of this step
  StepGraph::Marks marked_;
  StepGraph::Ends ends_;
};

}  // namespace

std::string_view name_of(PathPart part) {
  switch (part) {
    case PathPart::work: return "work";
    case PathPart::wait: return "wait";
    case PathPart::host: return "host";
  }
  return "?";
}

std::string_view name_of(PathGroup group) {
  switch (group) {
    case PathGroup::operation: return "operation";
    case PathGroup::unit: return "unit";
    case PathGroup::rank: return "rank";
  }
  return "?";
}

Time CriticalPath::time_of(PathPart part) const {
  Time sum = 0;
  for (const PathSegment& segment : segments) {
    if (segment.part == part) sum += segment.to - segment.from;
  }
  return sum;
}

std::int32_t typical_step(const Trace& trace) {
  if (trace.step_count() == 0 || trace.rank_count() == 0) return -1;
  const auto [from, to] = trace.recorded_steps();
  if (from >= to) return -1;
  const std::int32_t first = first_steady(from, to);
  std::vector<Time> medians;
  for (std::int32_t s = first; s < to; ++s) {
    medians.push_back(trace.summary().steps[static_cast<std::size_t>(s)].median);
  }
  const Time middle = median(medians);
  std::int32_t typical = first;
  for (std::int32_t s = first; s < to; ++s) {
    const auto off = [&](std::int32_t k) {
      return std::abs(medians[static_cast<std::size_t>(k - first)] - middle);
    };
    if (off(s) <= off(typical)) typical = s;
  }
  return typical;
}

Result<CriticalPath> critical_path(const Trace& trace, std::int32_t step) {
  CriticalPath path;
  if (step < 0 || step > trace.last_step()) return path;
  TESSERA_ASSIGN(const storage::RankSteps rows, trace.step_rows(step));
  const std::vector<Rank> ranks = ranks_of(trace, rows);
  TESSERA_ASSIGN(const StepGraph graph, StepGraph::read(trace, step, ranks));
  const std::int32_t last = last_span(trace, graph, rows);
  if (last < 0) return path;
  path.step = step;
  path.ranks = std::ssize(ranks);
  path.begin = trace.step_range(step).first;
  path.end = graph.spans()[static_cast<std::size_t>(last)].end;
  PathWalk(graph, path.begin, path.segments).from(last);
  PathTable(trace, graph, ranks, path).fill(last);
  return path;
}

}  // namespace tessera::analysis
