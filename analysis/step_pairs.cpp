// SPDX-License-Identifier: Apache-2.0
#include "tessera/analysis/step_pairs.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>

#include "analysis/op_pairs.h"
#include "analysis/operation_name.h"
#include "tessera/analysis/median.h"

namespace tessera::analysis {
namespace {

using SpansOfOps = std::map<std::int32_t, ComparedSpan>;

/// When the step begins and ends on the rank, ns.
Result<std::pair<Time, Time>> range_of(const Trace& trace, std::int32_t step, Rank rank) {
  TESSERA_ASSIGN(const storage::RankSteps rows, trace.step_rows(step));
  const auto row = static_cast<std::size_t>(rank);
  return std::pair{rows.begin[row], rows.end[row]};
}

// Streams run ahead of steps and behind, so that neighbours are read, too.
Result<SpansOfOps> read_step(const Trace& trace, std::int32_t step, Rank rank) {
  TESSERA_ASSIGN(const auto range, range_of(trace, step, rank));
  const Time zero = range.first;
  const Time from = trace.step_range(std::max(0, step - 1)).first;
  const Time to = trace.step_range(std::min(step + 1, trace.last_step())).second + 1;
  TESSERA_ASSIGN(const auto lanes, trace.reader().lanes(rank, from, to));
  SpansOfOps spans;
  for (const storage::Lane& lane : lanes) {
    for (std::size_t i = 0; i < lane.op.size(); ++i) {
      if (trace.op(lane.op[i]).step != step) continue;
      spans[lane.op[i]] = {lane.op[i], lane.stream, lane.begin[i] - zero, lane.ready[i] - zero,
                           lane.end[i] - zero};
    }
  }
  return spans;
}

// Not all of the trace's, which are many in a long run.
std::vector<storage::OpRow> ops_of(const Trace& trace, const SpansOfOps& spans) {
  std::vector<storage::OpRow> ops;
  for (const auto& [id, span] : spans) ops.push_back(trace.op(id));
  return ops;
}

Status check_recorded(const Trace& trace, const char* name, std::int32_t step, Rank rank) {
  if (step < 0 || step > trace.last_step()) {
    return {Code::invalid_argument, fmt::format("{} has no complete step {}", name, step)};
  }
  const auto [from, to] = trace.recorded_steps();
  if (step < from || step >= to) {
    return {Code::invalid_argument, fmt::format("{} has not recorded step {}", name, step)};
  }
  if (!trace.recorded(rank)) {
    return {Code::invalid_argument, fmt::format("{} has not recorded rank {}", name, rank)};
  }
  return {};
}

// What differs in the operations of each kind.
std::vector<ComparedKind> kinds_of(const Trace& trace, const std::vector<ComparedOp>& ops) {
  std::map<std::string, ComparedKind> kinds;
  std::map<std::string, std::vector<double>> shares;
  for (const ComparedOp& op : ops) {
    if (!op.a.there() || !op.b.there()) continue;
    std::string what = operation_of(trace.op(op.a.op));
    ComparedKind& kind = kinds[what];
    ++kind.count;
    kind.a += op.a.duration();
    kind.b += op.b.duration();
    if (op.a.duration() <= 0) continue;
    shares[what].push_back(
        static_cast<double>(op.b.duration()) / static_cast<double>(op.a.duration()) - 1);
  }
  std::vector<ComparedKind> out;
  for (auto& [what, kind] : kinds) {
    kind.what = what;
    std::vector<double>& all = shares[what];
    if (!all.empty()) {
      kind.median = median(all);
      for (double& share : all) share = std::abs(share);
      std::sort(all.begin(), all.end());
      kind.p95 = all[(all.size() - 1) * 95 / 100];
    }
    out.push_back(std::move(kind));
  }
  std::stable_sort(out.begin(), out.end(), [](const ComparedKind& x, const ComparedKind& y) {
    return std::abs(x.b - x.a) > std::abs(y.b - y.a);
  });
  return out;
}

}  // namespace

Result<StepPairs> pair_step(const Trace& a, const Trace& b, std::int32_t step, Rank rank) {
  TESSERA_TRY(check_recorded(a, "A", step, rank));
  TESSERA_TRY(check_recorded(b, "B", step, rank));
  StepPairs out;
  out.step = step;
  out.rank = rank;
  TESSERA_ASSIGN(const auto range_a, range_of(a, step, rank));
  TESSERA_ASSIGN(const auto range_b, range_of(b, step, rank));
  out.begin_a = range_a.first;
  out.begin_b = range_b.first;
  out.time_a = range_a.second - range_a.first;
  out.time_b = range_b.second - range_b.first;
  TESSERA_ASSIGN(SpansOfOps spans_a, read_step(a, step, rank));
  TESSERA_ASSIGN(SpansOfOps spans_b, read_step(b, step, rank));
  const auto taken = [](SpansOfOps& spans, std::int32_t op) {
    const auto found = spans.find(op);
    const ComparedSpan span = found->second;
    spans.erase(found);
    return span;
  };
  const auto ops_a = ops_of(a, spans_a), ops_b = ops_of(b, spans_b);
  OpLooks looks;
  const OpPairs pairs = pair_ops(OpTable(ops_a, looks), OpTable(ops_b, looks),
                                 pairs_only_collectives(a, b), step, step + 1);
  for (const OpPair& pair : pairs.pairs) {
    const storage::OpRow& op_a = ops_a[static_cast<std::size_t>(pair.a)];
    const storage::OpRow& op_b = ops_b[static_cast<std::size_t>(pair.b)];
    out.ops.push_back({taken(spans_a, op_a.id), taken(spans_b, op_b.id)});
  }
  for (const auto& [id, span] : spans_a) out.ops.push_back({span, {}});
  for (const auto& [id, span] : spans_b) out.ops.push_back({{}, span});
  out.only_a = std::ssize(spans_a);
  out.only_b = std::ssize(spans_b);
  const auto begin_of = [](const ComparedOp& op) { return op.a.there() ? op.a.begin : op.b.begin; };
  std::stable_sort(out.ops.begin(), out.ops.end(), [&](const ComparedOp& x, const ComparedOp& y) {
    return begin_of(x) < begin_of(y);
  });
  out.kinds = kinds_of(a, out.ops);
  return out;
}

}  // namespace tessera::analysis
