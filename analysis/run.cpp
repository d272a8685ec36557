// SPDX-License-Identifier: Apache-2.0
#include "tessera/analysis/run.h"

#include <algorithm>

#include "tessera/analysis/median.h"
#include "tessera/analysis/metrics.h"

namespace tessera::analysis {
namespace {

std::size_t at(const storage::RankSteps& steps, std::int32_t step, Rank rank) {
  return static_cast<std::size_t>(step) * static_cast<std::size_t>(steps.ranks) +
         static_cast<std::size_t>(rank);
}

// Ranks of which nothing is known are left out, unless nothing is known of any.
std::vector<RankMeans> rank_means(const storage::RankSteps& rows) {
  const std::int32_t first = first_steady(0, rows.steps);
  bool partly = false;
  for (Rank rank = 0; rank < rows.ranks; ++rank) partly |= known_step(rows, first, rank);
  std::vector<RankMeans> means;
  for (Rank rank = 0; rank < rows.ranks; ++rank) {
    RankMeans mean;
    mean.rank = rank;
    Time count = 0;
    for (std::int32_t step = first; step < rows.steps; ++step) {
      const std::size_t i = at(rows, step, rank);
      if (partly && !known_step(rows, step, rank)) continue;
      ++count;
      mean.step += rows.end[i] - rows.begin[i];
      mean.compute += rows.compute[i];
      mean.communication += rows.communication[i];
      mean.exposed += rows.exposed[i];
      mean.blocking += rows.blocking[i];
      mean.wait += rows.wait[i];
    }
    if (count == 0) continue;
    for (Time* sum : {&mean.step, &mean.compute, &mean.communication, &mean.exposed, &mean.blocking,
                      &mean.wait}) {
      *sum /= count;
    }
    for (std::int32_t step = 0; step < rows.steps; ++step) {
      const std::size_t i = at(rows, step, rank);
      mean.peak_allocated = std::max(mean.peak_allocated, rows.peak_allocated[i]);
      mean.peak_reserved = std::max(mean.peak_reserved, rows.peak_reserved[i]);
    }
    means.push_back(mean);
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

void add_steps(const storage::RankSteps& rows, RunFigures& figures) {
  if (rows.ranks == 0 || rows.steps == 0) return;
  const MetricTable times = table_of(rows, Metric::step_time);
  for (std::int32_t step = 0; step < rows.steps; ++step) {
    const Spread spread = spread_of(times, step);
    figures.steps.push_back({step, spread.low, spread.median, spread.high, spread.highest});
  }
  std::vector<Time> steady;
  for (std::int32_t step = first_steady(0, rows.steps); step < rows.steps; ++step) {
    steady.push_back(figures.steps[static_cast<std::size_t>(step)].median);
  }
  figures.step_time_steady = median(steady);
  figures.ranks = rank_means(rows);
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

void add_memory(const Trace& trace, RunFigures& figures) {
  Bytes highest{-1};
  for (const PeakMemory& peak : trace.peaks()) {
    figures.peak_reserved = std::max(figures.peak_reserved, peak.reserved);
    if (peak.allocated <= highest) continue;
    highest = peak.allocated;
    figures.peak_step = peak.step;
  }
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
  add_steps(trace.steps(), figures);
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
