// SPDX-License-Identifier: Apache-2.0
// A trace's figures of the whole run: the one definition of step time, MFU, exposed and the
// rest, for everybody who shows them.
//
// The idea: the first step allocates and gathers for the first time, so everything called steady
// leaves it out, unless it is the only one. Then
//
//   step time   one number per step, the median over its ranks; of those the median
//   rates, MFU  work of a step over the step time
//   shares      sums over ranks and steady steps, part over whole: they add up, and a slow rank,
//               which is never exposed itself, counts as much as any other
//
// and every median of two middle values is their mean. docs/decisions/0031 says why.
//
//   TESSERA_ASSIGN(const analysis::Trace trace, analysis::Trace::open("run.tessera"));
//   const RunFigures figures = figures_of(trace);
//   if (figures.mfu) print(*figures.mfu);
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tessera/analysis/collectives.h"
#include "tessera/analysis/critical_path.h"
#include "tessera/analysis/trace.h"

namespace tessera::analysis {

/// ns of one step over the ranks.
struct StepTime {
  std::int32_t step = 0;
  Time min = 0, median = 0, max = 0;
  Rank slowest = 0;
};

/// One rank, means per step over the steady steps, ns.
struct RankMeans {
  Rank rank = 0;
  Time step = 0, compute = 0, communication = 0, exposed = 0, blocking = 0, wait = 0;
  Time wait_caused = 0;  // how much longer the average rank waits in collectives than this one
  Bytes peak_allocated{}, peak_reserved{};  // over all steps
};

/// Means over ranks and steady steps, per step, ns.
struct TimeShares {
  Time step = 0, compute = 0;
  Time communication = 0;  // transfers and waiting inside collectives, summed over streams
  Time exposed = 0;
  Time overlapped = 0;  // communication that is not exposed
  Time blocking = 0;
  Time wait = 0;

  /// exposed / step, 0 to 1; 0 without a step.
  double exposed_share() const;
  /// overlapped / communication, 0 to 1; 0 without communication.
  double overlapped_share() const;
};

struct RunFigures {
  std::vector<StepTime> steps;
  Time step_time_steady = 0;  // ns; median over the steady steps of the ranks' median
  std::optional<double> tokens_per_s, tokens_per_s_per_gpu;
  std::optional<double> flops_per_s_per_gpu, mfu;  // mfu: share of run.peak_flops_per_rank
  TimeShares shares;
  std::int32_t peak_step = 0;      // the step with the highest allocated bytes
  std::vector<PeakMemory> peaks;   // of that step, by rank group, the highest first
  Bytes peak_reserved{};           // of any rank in any step
  std::int32_t reserved_step = 0;  // the first in which that much was
  std::optional<Bytes> headroom;   // capacity - peak_reserved, negative if it does not fit
  std::vector<RankMeans> ranks;    // ascending; those of which something is known
};

/// From the small tables alone: reads no spans.
RunFigures figures_of(const Trace& trace);

/// The `count` ranks with the largest value, largest first; ties by rank.
std::vector<RankMeans> worst_ranks(const RunFigures& figures, Time RankMeans::*value,
                                   std::size_t count);

/// Everything that a report shows.
struct RunReport {
  TraceRun run;
  std::string content_hash;
  std::int64_t units = 0;
  RunFigures figures;
  Collectives communication;
  CriticalPath critical_path;  // of the typical step
  std::vector<storage::DiagnosticRow> diagnostics;
};

/// Fails with what the reader reports.
Result<RunReport> report_of(const Trace& trace);

}  // namespace tessera::analysis
