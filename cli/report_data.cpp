// SPDX-License-Identifier: Apache-2.0
#include "cli/report_data.h"

#include <algorithm>
#include <map>

namespace tessera::cli {
namespace {

// Of two middle values the mean.
template <class T>
T median(std::vector<T> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 == 1) return *middle;
  const T below = *std::max_element(values.begin(), middle);
  return below + (*middle - below) / 2;
}

std::int32_t first_steady(const storage::RankSteps& steps) { return steps.steps > 1 ? 1 : 0; }

std::size_t at(const storage::RankSteps& steps, std::int32_t step, Rank rank) {
  return static_cast<std::size_t>(step) * static_cast<std::size_t>(steps.ranks) +
         static_cast<std::size_t>(rank);
}

StepTime step_time(const storage::RankSteps& rows, std::int32_t step) {
  std::vector<Time> times;
  for (Rank rank = 0; rank < rows.ranks; ++rank) {
    times.push_back(rows.end[at(rows, step, rank)] - rows.begin[at(rows, step, rank)]);
  }
  const auto [least, most] = std::minmax_element(times.begin(), times.end());
  const auto slowest =
      static_cast<Rank>(std::max_element(times.begin(), times.end()) - times.begin());
  return {step, *least, median(times), *most, slowest};
}

std::vector<RankMeans> rank_means(const storage::RankSteps& rows) {
  const std::int32_t first = first_steady(rows);
  const Time count = rows.steps - first;
  std::vector<RankMeans> means;
  for (Rank rank = 0; rank < rows.ranks; ++rank) {
    RankMeans& mean = means.emplace_back();
    mean.rank = rank;
    for (std::int32_t step = first; step < rows.steps; ++step) {
      const std::size_t i = at(rows, step, rank);
      mean.step += rows.end[i] - rows.begin[i];
      mean.compute += rows.compute[i];
      mean.communication += rows.communication[i];
      mean.exposed += rows.exposed[i];
      mean.blocking += rows.blocking[i];
      mean.wait += rows.wait[i];
    }
    for (Time* sum : {&mean.step, &mean.compute, &mean.communication, &mean.exposed, &mean.blocking,
                      &mean.wait}) {
      *sum /= count;
    }
    for (std::int32_t step = 0; step < rows.steps; ++step) {
      const std::size_t i = at(rows, step, rank);
      mean.peak_allocated = std::max(mean.peak_allocated, rows.peak_allocated[i]);
      mean.peak_reserved = std::max(mean.peak_reserved, rows.peak_reserved[i]);
    }
  }
  return means;
}

Time mean_of(const std::vector<RankMeans>& ranks, Time RankMeans::*value) {
  // Quotients and remainders apart, so that the sum of a million ranks cannot overflow.
  const auto count = static_cast<Time>(ranks.size());
  Time whole = 0;
  Time rest = 0;
  for (const RankMeans& rank : ranks) {
    whole += (rank.*value) / count;
    rest += (rank.*value) % count;
  }
  return whole + rest / count;
}

TimeShares time_shares(const std::vector<RankMeans>& ranks) {
  TimeShares shares;
  shares.step = mean_of(ranks, &RankMeans::step);
  shares.compute = mean_of(ranks, &RankMeans::compute);
  shares.wait = mean_of(ranks, &RankMeans::wait);
  shares.communication = mean_of(ranks, &RankMeans::communication) + shares.wait;
  shares.exposed = mean_of(ranks, &RankMeans::exposed);
  shares.overlapped = std::max<Time>(0, shares.communication - shares.exposed);
  shares.blocking = mean_of(ranks, &RankMeans::blocking);
  return shares;
}

void add_steps(const storage::RankSteps& rows, ReportData& report) {
  if (rows.ranks == 0 || rows.steps == 0) return;
  for (std::int32_t step = 0; step < rows.steps; ++step) {
    report.steps.push_back(step_time(rows, step));
  }
  std::vector<Time> steady;
  for (std::int32_t step = first_steady(rows); step < rows.steps; ++step) {
    steady.push_back(report.steps[static_cast<std::size_t>(step)].median);
  }
  report.step_time_steady = median(steady);
  report.ranks = rank_means(rows);
  report.shares = time_shares(report.ranks);
  for (RankMeans& rank : report.ranks) {
    rank.wait_caused = report.shares.wait - rank.wait;
    report.peak_reserved = std::max(report.peak_reserved, rank.peak_reserved);
  }
}

void add_rates(ReportData& report) {
  const TraceRun& run = report.run;
  if (report.step_time_steady <= 0) return;
  const double seconds = static_cast<double>(report.step_time_steady) * 1e-9;
  if (run.tokens_per_step > 0) {
    report.tokens_per_s = static_cast<double>(run.tokens_per_step) / seconds;
    report.tokens_per_s_per_gpu = *report.tokens_per_s / run.ranks;
  }
  if (run.model_flops_per_step > 0) {
    report.flops_per_s_per_gpu = run.model_flops_per_step / seconds / run.ranks;
    if (run.peak_flops_per_rank > 0) {
      report.mfu = *report.flops_per_s_per_gpu / run.peak_flops_per_rank;
    }
  }
}

void add_memory(const std::vector<PeakMemory>& peaks, ReportData& report) {
  Bytes highest{-1};
  for (const PeakMemory& peak : peaks) {
    report.peak_reserved = std::max(report.peak_reserved, peak.reserved);
    if (peak.allocated <= highest) continue;
    highest = peak.allocated;
    report.peak_step = peak.step;
  }
  for (const PeakMemory& peak : peaks) {
    if (peak.step == report.peak_step) report.peaks.push_back(peak);
  }
  std::stable_sort(
      report.peaks.begin(), report.peaks.end(),
      [](const PeakMemory& a, const PeakMemory& b) { return a.allocated > b.allocated; });
  if (report.run.memory_per_rank > Bytes{}) {
    report.headroom = report.run.memory_per_rank - report.peak_reserved;
  }
}

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
  CollectiveOps(const storage::TraceInfo& info, const std::vector<storage::OpRow>& ops) {
    for (const auto& row : info.communicators) group_sizes_[row.id] = row.group_size;
    for (const auto& op : ops) {
      if (is_collective(op.kind)) by_id_[op.id] = &op;
    }
  }

  const storage::OpRow* find(std::int32_t id) const {
    const auto found = by_id_.find(id);
    return found == by_id_.end() ? nullptr : found->second;
  }
  /// Bytes that each link carries; 0: unknown.
  double carried(const storage::OpRow& op) const {
    const auto group = group_sizes_.find(op.communicator);
    if (group == group_sizes_.end() || group->second < 1) return 0;
    return bus_factor(op.kind, group->second) * static_cast<double>(op.bytes.value);
  }

 private:
  std::map<std::int32_t, std::int32_t> group_sizes_;
  std::map<std::int32_t, const storage::OpRow*> by_id_;
};

struct SpanSums {
  Time transfer = 0, wait = 0, kernel = 0;
  std::vector<double> bus_bandwidths, kernel_bus_bandwidths;
};

using Collectives = std::map<OpKind, CommunicationKind>;

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
      add_bandwidth(ops.carried(*op), transfer, sum.bus_bandwidths);
    }
  }
  return {};
}

Status add_kernels(const storage::TraceReader& reader, Rank rank, const CollectiveOps& ops,
                   std::map<OpKind, SpanSums>& sums) {
  TESSERA_ASSIGN(const auto kernels, reader.kernels());
  for (const storage::KernelRow& row : kernels) {
    const storage::OpRow* const op = ops.find(row.op);
    if (op == nullptr || row.rank != rank) continue;
    SpanSums& sum = sums[op->kind];
    sum.kernel += row.time;
    add_bandwidth(ops.carried(*op), row.time, sum.kernel_bus_bandwidths);
  }
  return {};
}

Status add_times(const storage::TraceReader& reader, const std::vector<storage::OpRow>& ops,
                 Collectives& kinds) {
  const storage::TraceInfo& info = reader.info();
  if (info.run.recorded_ranks.empty()) return {};
  const Rank rank = info.run.recorded_ranks.front();
  const CollectiveOps collectives(info, ops);
  std::map<OpKind, SpanSums> sums;
  TESSERA_TRY(add_spans(reader, rank, collectives, sums));
  TESSERA_TRY(add_kernels(reader, rank, collectives, sums));
  for (auto& [kind, sum] : sums) {
    CommunicationKind& row = kinds[kind];
    row.transfer = sum.transfer;
    row.wait = sum.wait;
    if (sum.kernel > 0) row.kernel = sum.kernel;
    if (!sum.bus_bandwidths.empty()) row.bus_bandwidth_bytes_per_s = median(sum.bus_bandwidths);
    if (sum.kernel_bus_bandwidths.empty()) continue;
    row.kernel_bus_bandwidth_bytes_per_s = median(sum.kernel_bus_bandwidths);
  }
  return {};
}

Status add_communication(const storage::TraceReader& reader, ReportData& report) {
  TESSERA_ASSIGN(const auto ops, reader.ops());
  Collectives kinds;
  for (const storage::OpRow& op : ops) {
    if (!is_collective(op.kind)) continue;
    CommunicationKind& row = kinds[op.kind];
    row.kind = op.kind;
    ++row.count;
    row.bytes += op.bytes;
  }
  TESSERA_TRY(add_times(reader, ops, kinds));
  for (auto& [kind, row] : kinds) report.communication.push_back(row);
  return {};
}

}  // namespace

Result<ReportData> read_report(const storage::TraceReader& reader) {
  ReportData report;
  report.run = reader.info().run;
  report.content_hash = reader.info().content_hash;
  report.units = static_cast<std::int64_t>(reader.info().units.size());
  TESSERA_ASSIGN(const auto rows, reader.rank_steps());
  add_steps(rows, report);
  add_rates(report);
  TESSERA_ASSIGN(const auto peaks, reader.peak_memory());
  add_memory(peaks, report);
  TESSERA_TRY(add_communication(reader, report));
  TESSERA_ASSIGN(report.diagnostics, reader.diagnostics());
  return report;
}

std::vector<RankMeans> worst_ranks(const ReportData& report, Time RankMeans::*value,
                                   std::size_t count) {
  std::vector<RankMeans> ranks = report.ranks;
  const auto end = ranks.begin() + static_cast<std::ptrdiff_t>(std::min(count, ranks.size()));
  std::partial_sort(ranks.begin(), end, ranks.end(),
                    [value](const RankMeans& a, const RankMeans& b) {
                      return a.*value != b.*value ? a.*value > b.*value : a.rank < b.rank;
                    });
  ranks.erase(end, ranks.end());
  return ranks;
}

}  // namespace tessera::cli
