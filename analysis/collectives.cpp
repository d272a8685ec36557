// SPDX-License-Identifier: Apache-2.0
#include "tessera/analysis/collectives.h"

#include <algorithm>
#include <span>

#include "tessera/analysis/median.h"

namespace tessera::analysis {
namespace {

/// How many ranks take part, if they are all of the run. 0: they are not; who belongs together is
/// not in the trace.
Rank of_one_group(const Trace& trace, const storage::OpRow& op) {
  const storage::CommunicatorRow* const communicator = trace.communicator(op);
  const Rank ranks = trace.run().ranks;
  return communicator != nullptr && communicator->group_size == ranks ? ranks : 0;
}

struct SpanSums {
  Time transfer = 0, wait = 0, kernel = 0;
  std::vector<double> bus_bandwidths, kernel_bus_bandwidths;
  std::map<Rank, Time> spread_by_last;
};

void add_bandwidth(double bandwidth, std::vector<double>& bandwidths) {
  if (bandwidth > 0) bandwidths.push_back(bandwidth);
}

Status add_spans(const Trace& trace, Rank rank, std::map<OpKind, SpanSums>& sums) {
  TESSERA_ASSIGN(auto lanes, trace.reader().lanes(rank, 0, trace.info().end + 1));
  for (const storage::Lane& lane : lanes) {
    for (std::size_t i = 0; i < lane.op.size(); ++i) {
      const storage::OpRow& op = trace.op(lane.op[i]);
      if (op.id != lane.op[i] || !is_collective(op.kind)) continue;
      SpanSums& sum = sums[op.kind];
      const Time transfer = lane.end[i] - lane.ready[i];
      sum.transfer += transfer;
      sum.wait += lane.ready[i] - lane.begin[i];
      add_bandwidth(bus_bandwidth(trace, op, transfer), sum.bus_bandwidths);
    }
  }
  return {};
}

using KernelRows = std::span<const storage::KernelRow>;

bool end_together(OpKind kind) { return kind != OpKind::broadcast && kind != OpKind::reduce; }

// The shortest began last.
void add_spread(const KernelRows& rows, SpanSums& sum) {
  const auto [least, most] =
      std::minmax_element(rows.begin(), rows.end(), [](const auto& a, const auto& b) {
        return std::pair(a.time, a.rank) < std::pair(b.time, b.rank);
      });
  sum.spread_by_last[least->rank] += most->time - least->time;
}

/// `rows` are those of one op.
void add_kernels_of_op(const Trace& trace, const KernelRows& rows, Rank rank,
                       std::map<OpKind, SpanSums>& sums, Collectives& collectives) {
  const storage::OpRow& op = trace.op(rows.front().op);
  if (op.id != rows.front().op || !is_collective(op.kind)) return;
  SpanSums& sum = sums[op.kind];
  for (const storage::KernelRow& row : rows) {
    if (row.rank != rank) continue;
    sum.kernel += row.time;
    add_bandwidth(bus_bandwidth(trace, op, row.time), sum.kernel_bus_bandwidths);
  }
  const Rank together = of_one_group(trace, op);
  if (rows.size() > 1 && together > 0 && end_together(op.kind)) add_spread(rows, sum);
  for (Rank r = 0, k = 0; r < together; ++r) {
    const auto next = static_cast<std::size_t>(k);
    const bool known = next < rows.size() && rows[next].rank == r;
    if (known) ++k;
    if (!known) ++collectives.without_kernel[r];
  }
}

void add_kernels(const Trace& trace, Rank rank, std::map<OpKind, SpanSums>& sums,
                 Collectives& collectives) {
  const auto& kernels = trace.kernels();
  for (auto begin = kernels.begin(); begin != kernels.end();) {
    const auto end =
        std::find_if(begin, kernels.end(), [&](const auto& row) { return row.op != begin->op; });
    add_kernels_of_op(trace, KernelRows(begin, end), rank, sums, collectives);
    begin = end;
  }
}

std::optional<KernelSpread> spread_of(const SpanSums& sum) {
  if (sum.spread_by_last.empty()) return std::nullopt;
  KernelSpread spread;
  for (const auto& [rank, caused] : sum.spread_by_last) {
    spread.sum += caused;
    if (caused <= spread.caused) continue;
    spread.last = rank;
    spread.caused = caused;
  }
  return spread;
}

Status add_times(const Trace& trace, std::map<OpKind, CommunicationKind>& kinds,
                 Collectives& collectives) {
  if (trace.run().recorded_ranks.empty()) return {};
  const Rank rank = trace.run().recorded_ranks.front();
  std::map<OpKind, SpanSums> sums;
  TESSERA_TRY(add_spans(trace, rank, sums));
  add_kernels(trace, rank, sums, collectives);
  for (auto& [kind, sum] : sums) {
    CommunicationKind& row = kinds[kind];
    row.transfer = sum.transfer;
    row.wait = sum.wait;
    if (sum.kernel > 0) row.kernel = sum.kernel;
    row.spread = spread_of(sum);
    if (!sum.bus_bandwidths.empty()) row.bus_bandwidth_bytes_per_s = median(sum.bus_bandwidths);
    if (sum.kernel_bus_bandwidths.empty()) continue;
    row.kernel_bus_bandwidth_bytes_per_s = median(sum.kernel_bus_bandwidths);
  }
  return {};
}

}  // namespace

double bus_factor(OpKind kind, std::int32_t ranks) {
  const double n = ranks;
  switch (kind) {
    case OpKind::all_gather:
    case OpKind::all_to_all:
    case OpKind::reduce_scatter: return (n - 1) / n;
    case OpKind::all_reduce: return 2 * (n - 1) / n;
    default: return 1;
  }
}

double bus_bandwidth(const Trace& trace, const storage::OpRow& op, Time time) {
  const storage::CommunicatorRow* const communicator = trace.communicator(op);
  if (time <= 0 || communicator == nullptr || communicator->group_size < 1) return 0;
  const double carried =
      bus_factor(op.kind, communicator->group_size) * static_cast<double>(op.bytes.value);
  return carried / static_cast<double>(time) * 1e9;
}

Result<Collectives> collectives_of(const Trace& trace) {
  std::map<OpKind, CommunicationKind> kinds;
  for (const storage::OpRow& op : trace.ops()) {
    if (!is_collective(op.kind)) continue;
    CommunicationKind& row = kinds[op.kind];
    row.kind = op.kind;
    ++row.count;
    row.bytes += op.bytes;
  }
  Collectives collectives;
  TESSERA_TRY(add_times(trace, kinds, collectives));
  for (auto& [kind, row] : kinds) collectives.kinds.push_back(row);
  return collectives;
}

}  // namespace tessera::analysis
