// SPDX-License-Identifier: Apache-2.0
// One step of one rank in two runs, operation by operation, on one axis of time.
//
// The idea: operations of two runs are the same ones by the rule of compare.h; their times count
// from the begin of the step on the rank, so that runs of different length lie upon each other.
//
//   TESSERA_ASSIGN(const StepPairs pairs, pair_step(before, after, /*step=*/3, /*rank=*/0));
//   for (const ComparedOp& op : pairs.ops) draw(op.a, op.b);
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tessera/analysis/trace.h"

namespace tessera::analysis {

/// An operation in one of the runs; ns since the step's begin.
struct ComparedSpan {
  std::int32_t op = -1;  // -1: this run has none
  std::int32_t stream = 0;
  Time begin = 0, ready = 0, end = 0;

  bool there() const { return op >= 0; }
  Time duration() const { return end - begin; }
};

/// The same operation in both; or only one of them.
struct ComparedOp {
  ComparedSpan a, b;
};

/// All operations of one kind and phase that both runs have.
struct ComparedKind {
  std::string what;  // "all_gather, forward"
  std::int64_t count = 0;
  Time a = 0, b = 0;  // ns, sums
  double median = 0;  // of b / a - 1 over the operations
  double p95 = 0;     // 95 of 100 operations differ by at most this much, as a share of A
};

struct StepPairs {
  std::int32_t step = -1;
  Rank rank = -1;
  Time begin_a = 0, begin_b = 0;    // ns of each run: where the axis has its 0
  Time time_a = 0, time_b = 0;      // ns that the step takes on the rank
  std::vector<ComparedOp> ops;      // in the order of their begin in A, or else in B
  std::vector<ComparedKind> kinds;  // the largest |b - a| first
  std::int64_t only_a = 0, only_b = 0;
};

/// Fails: invalid_argument (a step or a rank that one of them has not recorded), naming it; what
/// the readers report.
Result<StepPairs> pair_step(const Trace& a, const Trace& b, std::int32_t step, Rank rank);

}  // namespace tessera::analysis
