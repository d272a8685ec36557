// SPDX-License-Identifier: Apache-2.0
#include "tessera/storage/same_content.h"

#include <algorithm>
#include <limits>
#include <tuple>

#include "storage/record_sql.h"
#include "storage/records.h"

namespace tessera::storage {
namespace {

template <class Record>
bool same_row(const Record& a, const Record& b) {
  return std::apply([&](const auto&... c) { return ((a.*c.member == b.*c.member) && ...); },
                    List<Record>::columns);
}

template <class Record>
bool same_rows(const std::vector<Record>& a, const std::vector<Record>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), same_row<Record>);
}

bool same_info(const TraceInfo& a, const TraceInfo& b) {
  const TraceRun &x = a.run, &y = b.run;
  const auto unlisted = [](const TraceRun& r) {
    return std::tie(r.options, r.sources, r.seed, r.recorded_ranks, r.recorded_from, r.recorded_to,
                    r.records_memory);
  };
  return same_row(x, y) && unlisted(x) == unlisted(y) && a.steps == b.steps && a.end == b.end &&
         same_rows(a.streams, b.streams) && same_rows(a.communicators, b.communicators) &&
         same_rows(a.units, b.units);
}

bool same_lane(const Lane& a, const Lane& b) {
  return std::tie(a.stream, a.op, a.begin, a.ready, a.end) ==
         std::tie(b.stream, b.op, b.begin, b.ready, b.end);
}

bool same_memory(const MemorySeries& a, const MemorySeries& b) {
  return std::tie(a.time, a.buffer, a.memory_class, a.delta, a.allocated, a.reserved) ==
         std::tie(b.time, b.buffer, b.memory_class, b.delta, b.allocated, b.reserved);
}

bool same_steps(const RankSteps& a, const RankSteps& b) {
  bool same = a.ranks == b.ranks && a.steps == b.steps;
  for_each_step_column<RankSteps, RankSteps>(
      [&](auto column, auto) { same = same && a.*column == b.*column; });
  return same;
}

bool same_block(const MemoryBlock& a, const MemoryBlock& b) {
  const auto all = [](const MemoryBlock& m) {
    return std::tie(m.address, m.bytes, m.segment, m.stream, m.buffer);
  };
  return all(a) == all(b);
}

bool same_shortage(const MemoryShortageRow& a, const MemoryShortageRow& b) {
  return same_row<TraceMemoryShortage>(a, b) &&
         std::equal(a.map.begin(), a.map.end(), b.map.begin(), b.map.end(), same_block);
}

Result<bool> same_tables(const TraceReader& a, const TraceReader& b) {
  TESSERA_ASSIGN(const auto buffers_a, a.buffers());
  TESSERA_ASSIGN(const auto buffers_b, b.buffers());
  TESSERA_ASSIGN(const auto diagnostics_a, a.diagnostics());
  TESSERA_ASSIGN(const auto diagnostics_b, b.diagnostics());
  TESSERA_ASSIGN(const auto kernels_a, a.kernels());
  TESSERA_ASSIGN(const auto kernels_b, b.kernels());
  TESSERA_ASSIGN(const auto peaks_a, a.peak_memory());
  TESSERA_ASSIGN(const auto peaks_b, b.peak_memory());
  TESSERA_ASSIGN(const auto short_a, a.memory_shortages());
  TESSERA_ASSIGN(const auto short_b, b.memory_shortages());
  const auto same_classes = [](const PeakMemory& x, const PeakMemory& y) {
    return x.by_class == y.by_class;
  };
  return same_rows(buffers_a, buffers_b) && same_rows(diagnostics_a, diagnostics_b) &&
         same_rows(kernels_a, kernels_b) && same_rows(peaks_a, peaks_b) &&
         std::equal(peaks_a.begin(), peaks_a.end(), peaks_b.begin(), same_classes) &&
         std::equal(short_a.begin(), short_a.end(), short_b.begin(), short_b.end(), same_shortage);
}

Result<bool> same_ops(const TraceReader& a, const TraceReader& b) {
  TESSERA_ASSIGN(const auto ops_a, a.ops());
  TESSERA_ASSIGN(const auto ops_b, b.ops());
  if (!same_rows(ops_a, ops_b)) return false;
  if (ops_a.empty()) return true;
  const std::int64_t end = std::int64_t{ops_a.back().id} + 1;
  TESSERA_ASSIGN(const OpWaits waits_a, a.waits(ops_a.front().id, end));
  TESSERA_ASSIGN(const OpWaits waits_b, b.waits(ops_a.front().id, end));
  return waits_a.op == waits_b.op && waits_a.after == waits_b.after;
}

Result<bool> same_rank(const TraceReader& a, const TraceReader& b, Rank rank) {
  constexpr Time from = std::numeric_limits<Time>::min(), to = std::numeric_limits<Time>::max();
  TESSERA_ASSIGN(const auto lanes_a, a.lanes(rank, from, to));
  TESSERA_ASSIGN(const auto lanes_b, b.lanes(rank, from, to));
  if (!std::equal(lanes_a.begin(), lanes_a.end(), lanes_b.begin(), lanes_b.end(), same_lane)) {
    return false;
  }
  TESSERA_ASSIGN(const auto memory_a, a.memory(rank));
  TESSERA_ASSIGN(const auto memory_b, b.memory(rank));
  return same_memory(memory_a, memory_b);
}

}  // namespace

Result<bool> same_content(const TraceReader& a, const TraceReader& b) {
  if (!same_info(a.info(), b.info())) return false;
  TESSERA_ASSIGN(const bool tables, same_tables(a, b));
  if (!tables) return false;
  TESSERA_ASSIGN(const bool ops, same_ops(a, b));
  if (!ops) return false;
  TESSERA_ASSIGN(const RankSteps steps_a, a.rank_steps());
  TESSERA_ASSIGN(const RankSteps steps_b, b.rank_steps());
  if (!same_steps(steps_a, steps_b)) return false;
  for (const Rank rank : a.info().run.recorded_ranks) {
    TESSERA_ASSIGN(const bool same, same_rank(a, b, rank));
    if (!same) return false;
  }
  return true;
}

}  // namespace tessera::storage
