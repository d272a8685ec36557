// SPDX-License-Identifier: Apache-2.0
#include "cli/report/report_collectives.h"

#include <algorithm>
#include <span>

#include "cli/report/median.h"

namespace tessera::cli {
namespace {

// nccl-tests, PERFORMANCE.md: what each link carries for a collective of n ranks.
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

// The collectives of a trace.
class CollectiveOps {
 public:
  CollectiveOps(const storage::TraceInfo& info, const std::vector<storage::OpRow>& ops)
      : ranks_(info.run.ranks) {
    for (const auto& row : info.communicators) communicators_[row.id] = &row;
    for (const auto& op : ops) {
      if (is_collective(op.kind)) by_id_[op.id] = &op;
    }
  }

  const storage::OpRow* find(std::int32_t id) const {
    const auto found = by_id_.find(id);
    return found == by_id_.end() ? nullptr : found->second;
  }
  /// Bytes that each link carries; 0: unknown.
  double local_ranks(const storage::OpRow& op) const {
    const storage::CommunicatorRow* const communicator = communicator_of(op);
    if (communicator == nullptr || communicator->group_size < 1) return 0;
    return bus_factor(op.kind, communicator->group_size) * static_cast<double>(op.bytes.value);
  }
  /// How many ranks take part, if they are all of the run. 0: they are not; who belongs together is
  /// not in the trace.
  Rank of_one_group(const storage::OpRow& op) const {
    const storage::CommunicatorRow* const communicator = communicator_of(op);
    const bool all = communicator != nullptr && communicator->group_size == ranks_;
    return all ? ranks_ : 0;
  }

 private:
  const storage::CommunicatorRow* communicator_of(const storage::OpRow& op) const {
    const auto found = communicators_.find(op.communicator);
    return found == communicators_.end() ? nullptr : found->second;
  }

  const Rank ranks_;
  std::map<std::int32_t, const storage::CommunicatorRow*> communicators_;
  std::map<std::int32_t, const storage::OpRow*> by_id_;
};

struct SpanSums {
  Time transfer = 0, wait = 0, kernel = 0;
  std::vector<double> bus_bandwidths, kernel_bus_bandwidths;
  std::map<Rank, Time> spread_by_last;
};

using Kinds = std::map<OpKind, CommunicationKind>;

void add_bandwidth(double carried, Time time, std::vector<double>& bandwidths) {
  if (time > 0 && carried > 0) bandwidths.push_back(carried / static_cast<double>(time) * 1e9);
}

Status add_spans(const storage::TraceReader& reader, Rank rank, const CollectiveOps& ops,
                 std::map<OpKind, SpanSums>& sums) {
  TESSERA_ASSIGN(auto lanes, reader.lanes(rank, 0, reader.info().end + 1));
  for (const storage::Lane& lane : lanes) {
    for (std::size_t i = 0; i < lane.op.size(); ++i) {
      const storage::OpRow* const op = ops.find(lane.op[i]);
      if (op == nullptr) continue;
      SpanSums& sum = sums[op->kind];
      const Time transfer = lane.end[i] - lane.ready[i];
      sum.transfer += transfer;
      sum.wait += lane.ready[i] - lane.begin[i];
      add_bandwidth(ops.local_ranks(*op), transfer, sum.bus_bandwidths);
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

// Of one op.
void add_kernels(const KernelRows& rows, Rank rank, const CollectiveOps& ops,
                 std::map<OpKind, SpanSums>& sums, Collectives& collectives) {
  const storage::OpRow* const op = ops.find(rows.front().op);
  if (op == nullptr) return;
  SpanSums& sum = sums[op->kind];
  for (const storage::KernelRow& row : rows) {
    if (row.rank != rank) continue;
    sum.kernel += row.time;
    add_bandwidth(ops.local_ranks(*op), row.time, sum.kernel_bus_bandwidths);
  }
  const Rank together = ops.of_one_group(*op);
  if (rows.size() > 1 && together > 0 && end_together(op->kind)) add_spread(rows, sum);
  for (Rank r = 0, k = 0; r < together; ++r) {
    const bool known = static_cast<std::size_t>(k) < rows.size() && rows[k].rank == r;
    if (known) ++k;
    if (!known) ++collectives.without_kernel[r];
  }
}

Status add_kernels(const storage::TraceReader& reader, Rank rank, const CollectiveOps& ops,
                   std::map<OpKind, SpanSums>& sums, Collectives& collectives) {
  TESSERA_ASSIGN(const auto kernels, reader.kernels());
  for (auto begin = kernels.begin(); begin != kernels.end();) {
    const auto end =
        std::find_if(begin, kernels.end(), [&](const auto& row) { return row.op != begin->op; });
    add_kernels(KernelRows(begin, end), rank, ops, sums, collectives);
    begin = end;
  }
  return {};
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

Status add_times(const storage::TraceReader& reader, const std::vector<storage::OpRow>& ops,
                 Kinds& kinds, Collectives& collectives) {
  const storage::TraceInfo& info = reader.info();
  if (info.run.recorded_ranks.empty()) return {};
  const Rank rank = info.run.recorded_ranks.front();
  const CollectiveOps by_id(info, ops);
  std::map<OpKind, SpanSums> sums;
  TESSERA_TRY(add_spans(reader, rank, by_id, sums));
  TESSERA_TRY(add_kernels(reader, rank, by_id, sums, collectives));
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

Result<Collectives> read_collectives(const storage::TraceReader& reader) {
  TESSERA_ASSIGN(const auto ops, reader.ops());
  Kinds kinds;
  for (const storage::OpRow& op : ops) {
    if (!is_collective(op.kind)) continue;
    CommunicationKind& row = kinds[op.kind];
    row.kind = op.kind;
    ++row.count;
    row.bytes += op.bytes;
  }
  Collectives collectives;
  TESSERA_TRY(add_times(reader, ops, kinds, collectives));
  for (auto& [kind, row] : kinds) collectives.kinds.push_back(row);
  return collectives;
}

}  // namespace tessera::cli
