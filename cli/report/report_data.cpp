// SPDX-License-Identifier: Apache-2.0
#include "cli/report/report_data.h"

#include <algorithm>

#include "cli/report/median.h"

namespace tessera::cli {
namespace {

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
  TESSERA_ASSIGN(report.communication, read_collectives(reader));
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
