// SPDX-License-Identifier: Apache-2.0
#include "tessera/analysis/run.h"

#include <algorithm>

#include "tessera/analysis/median.h"
#include "tessera/analysis/metrics.h"

namespace tessera::analysis {
namespace {

// What the first step adds to the sums, which is not steady.
void leave_out_first(const storage::RankSteps& rows, storage::RankSummaryRow& sums) {
  const auto i = static_cast<std::size_t>(sums.rank);
  if (!known_step(rows, 0, sums.rank)) return;
  --sums.steps;
  sums.time -= rows.end[i] - rows.begin[i];
  sums.compute -= rows.compute[i];
  sums.communication -= rows.communication[i];
  sums.exposed -= rows.exposed[i];
  sums.blocking -= rows.blocking[i];
  sums.wait -= rows.wait[i];
}

// Ranks of which nothing is known are left out, unless nothing is known of any.
std::vector<RankMeans> rank_means(const Trace& trace) {
  const std::int32_t first = first_steady(0, trace.step_count());
  bool partly = false;
  for (Rank rank = 0; rank < trace.rank_count(); ++rank) {
    partly |= known_step(trace.first_rows(), first, rank);
  }
  std::vector<RankMeans> means;
  for (storage::RankSummaryRow sums : trace.summary().ranks) {
    if (first > 0) leave_out_first(trace.first_rows(), sums);
    const Time count = partly ? sums.steps : trace.step_count() - first;
    if (count <= 0) continue;
    means.push_back({sums.rank, sums.time / count, sums.compute / count, sums.communication / count,
                     sums.exposed / count, sums.blocking / count, sums.wait / count, 0,
                     sums.peak_allocated, sums.peak_reserved});
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

void add_steps(const Trace& trace, RunFigures& figures) {
  if (trace.rank_count() == 0 || trace.step_count() == 0) return;
  for (const storage::StepSummaryRow& row : trace.summary().steps) {
    figures.steps.push_back({row.step, row.shortest, row.median, row.longest, row.slowest});
  }
  std::vector<Time> steady;
  for (std::int32_t step = first_steady(0, trace.step_count()); step < trace.step_count(); ++step) {
    steady.push_back(figures.steps[static_cast<std::size_t>(step)].median);
  }
  figures.step_time_steady = median(steady);
  figures.ranks = rank_means(trace);
  figures.shares = time_shares(figures.ranks);
  for (RankMeans& rank : figures.ranks) {
    rank.wait_caused = figures.shares.wait - rank.wait;
    figures.peak_reserved = std::max(figures.peak_reserved, rank.peak_reserved);
  }
}

void add_rates(const TraceRun& run, RunFigures& figures) {
  if (figures.step_time_steady <= 0) return;
  const double seconds = static_cast<double>(figures.step_time_steady) * 1e-9;
  if (run.tokens_per_step > 0) {
    figures.tokens_per_s = static_cast<double>(run.tokens_per_step) / seconds;
    figures.tokens_per_s_per_gpu = *figures.tokens_per_s / run.ranks;
  }
  if (run.model_flops_per_step > 0) {
    figures.flops_per_s_per_gpu = run.model_flops_per_step / seconds / run.ranks;
    if (run.peak_flops_per_rank > 0) {
      figures.mfu = *figures.flops_per_s_per_gpu / run.peak_flops_per_rank;
    }
  }
}

// Of what is known of all ranks, or else of the peaks that were kept by class.
std::int32_t step_reserving(const Trace& trace, Bytes most) {
  for (const storage::StepSummaryRow& row : trace.summary().steps) {
    if (row.peak_reserved == most) return row.step;
  }
  for (const PeakMemory& peak : trace.peaks()) {
    if (peak.reserved == most) return peak.step;
  }
  return 0;
}

void add_memory(const Trace& trace, RunFigures& figures) {
  Bytes highest{-1};
  for (const PeakMemory& peak : trace.peaks()) {
    figures.peak_reserved = std::max(figures.peak_reserved, peak.reserved);
    if (peak.allocated <= highest) continue;
    highest = peak.allocated;
    figures.peak_step = peak.step;
  }
  figures.reserved_step = step_reserving(trace, figures.peak_reserved);
  for (const PeakMemory& peak : trace.peaks()) {
    if (peak.step == figures.peak_step) figures.peaks.push_back(peak);
  }
  std::stable_sort(
      figures.peaks.begin(), figures.peaks.end(),
      [](const PeakMemory& a, const PeakMemory& b) { return a.allocated > b.allocated; });
  if (trace.run().memory_per_rank > Bytes{}) {
    figures.headroom = trace.run().memory_per_rank - figures.peak_reserved;
  }
}

double share(Time part, Time whole) {
  return whole > 0 ? static_cast<double>(part) / static_cast<double>(whole) : 0;
}

}  // namespace

double TimeShares::exposed_share() const { return share(exposed, step); }
double TimeShares::overlapped_share() const { return share(overlapped, communication); }

RunFigures figures_of(const Trace& trace) {
  RunFigures figures;
  add_steps(trace, figures);
  add_rates(trace.run(), figures);
  add_memory(trace, figures);
  return figures;
}

Result<RunReport> report_of(const Trace& trace) {
  RunReport report;
  report.run = trace.run();
  report.content_hash = trace.info().content_hash;
  report.units = static_cast<std::int64_t>(trace.info().units.size());
  report.figures = figures_of(trace);
  TESSERA_ASSIGN(report.communication, collectives_of(trace));
  TESSERA_ASSIGN(report.critical_path, critical_path(trace, typical_step(trace)));
  report.diagnostics = trace.diagnostics();
  return report;
}

std::vector<RankMeans> worst_ranks(const RunFigures& figures, Time RankMeans::*value,
                                   std::size_t count) {
  std::vector<RankMeans> ranks = figures.ranks;
  const auto end = ranks.begin() + static_cast<std::ptrdiff_t>(std::min(count, ranks.size()));
  std::partial_sort(ranks.begin(), end, ranks.end(),
                    [value](const RankMeans& a, const RankMeans& b) {
                      return a.*value != b.*value ? a.*value > b.*value : a.rank < b.rank;
                    });
  ranks.erase(end, ranks.end());
  return ranks;
}

}  // namespace tessera::analysis
