// SPDX-License-Identifier: Apache-2.0
// What a trace says about a run, as numbers: computed from the reader, printed elsewhere.
//
// The idea: the first step allocates and gathers for the first time, so everything called steady
// leaves it out, unless it is the only one.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "cli/report/report_collectives.h"
#include "tessera/storage/trace_reader.h"

namespace tessera::cli {

/// Step time over the ranks.
struct StepTime {
  std::int32_t step = 0;
  Time min = 0, median = 0, max = 0;
  Rank slowest = 0;
};

/// One rank, means per step over the steady steps.
struct RankMeans {
  Rank rank = 0;
  Time step = 0, compute = 0, communication = 0, exposed = 0, blocking = 0, wait = 0;
  Time wait_caused = 0;  // how much longer the average rank waits in collectives than this one
  Bytes peak_allocated{}, peak_reserved{};  // over all steps
};

/// Means over ranks and steady steps, per step.
struct TimeShares {
  Time step = 0, compute = 0;
  Time communication = 0;  // transfers and waiting inside collectives, summed over streams
  Time exposed = 0;
  Time overlapped = 0;  // communication that is not exposed
  Time blocking = 0;
  Time wait = 0;
};

struct ReportData {
  TraceRun run;
  std::string content_hash;
  std::int64_t units = 0;
  std::vector<StepTime> steps;
  Time step_time_steady = 0;  // median over the steady steps of the ranks' median
  std::optional<double> tokens_per_s, tokens_per_s_per_gpu;
  std::optional<double> flops_per_s_per_gpu, mfu;  // mfu: share of run.peak_flops_per_rank
  TimeShares shares;
  std::int32_t peak_step = 0;     // the step with the highest allocated bytes
  std::vector<PeakMemory> peaks;  // of that step, by rank group
  Bytes peak_reserved{};          // of any rank in any step
  std::optional<Bytes> headroom;  // capacity - peak_reserved, negative if it does not fit
  Collectives communication;
  std::vector<RankMeans> ranks;
  std::vector<storage::DiagnosticRow> diagnostics;
};

/// Fails with what the reader reports.
Result<ReportData> read_report(const storage::TraceReader& reader);

/// The `count` ranks with the largest value, largest first; ties by rank.
std::vector<RankMeans> worst_ranks(const ReportData& report, Time RankMeans::*value,
                                   std::size_t count);

}  // namespace tessera::cli
