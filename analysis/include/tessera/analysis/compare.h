// SPDX-License-Identifier: Apache-2.0
// What differs between two runs, operation by operation, and why a step takes longer or shorter.
//
// The idea: operations are decided by the engine and carry their cause, so those of two runs are
// the same ones if step, unit, kind, phase, reason and the number among their like agree. What is
// then different is time. A step is compute, what collectives expose, and the rest; what they
// expose is transfers, or waiting for a rank that computes longer. Those are the causes.
//
//   TESSERA_ASSIGN(const Comparison c, compare(before, after));
//   for (const Cause& cause : c.causes) print(cause.what, cause.time);
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "tessera/analysis/trace.h"

namespace tessera::analysis {

/// The sum of operations of one kind, phase and unit that changed. ns per step and rank.
struct ChangedOps {
  std::string what;  // "all_gather h.3, backward: backward_prefetch in A, needed in B"
  std::int64_t count = 0;
  Time a = 0, b = 0;
};

/// Something that makes a step of B longer (> 0) or shorter than one of A.
struct Cause {
  std::string what;             // "all_gather: transfers that compute does not hide"
  Time time = 0;                // ns per step
  std::vector<ChangedOps> ops;  // the largest differences first, three at most
  // What steps of these runs differ by: means of equal runs do so by less in 999 of 1000 cases. 0:
  // not known, as there is a single step.
  Time noise = 0;
  // Something was changed for sure: other operations, or the same ones for another reason. Such
  // causes come first, unless they are less than a tenth of the largest.
  bool certain = false;
};

/// Means per steady step over the ranks, ns.
struct StepParts {
  Time step = 0;      // the median rank's, of the median step
  Time compute = 0;   // of the median rank
  Time transfer = 0;  // exposed
  Time waiting = 0;   // exposed, until the last member of a collective is there
  Time other = 0;     // the host's, I/O, ...
};

/// Operations that only one run has.
struct OnlyInOne {
  bool in_a = false;
  std::string what;  // "all_gather h.3, backward"
  std::int64_t count = 0;
};

struct Comparison {
  std::int64_t ops_a = 0, ops_b = 0;  // of the steps that both have
  std::int64_t matched = 0;           // pairs
  std::int64_t other_reason = 0;      // of these: issued for another reason
  std::string changed;                // collectives that are not alike in number or size, or ""
  bool collectives_only = false;      // one run was imported: the others are no operations of ours
  std::int32_t steps = 0;             // that both have
  std::vector<Rank> ranks;            // that both have recorded
  StepParts a, b;
  std::vector<Cause> causes;    // certain ones and the largest |time| first, above their noise
  std::vector<Cause> chance;    // likewise, those that may be chance
  PeakMemory peak_a, peak_b;    // of the highest step and rank
  std::vector<OnlyInOne> only;  // the most operations first

  /// 2 matched / (ops_a + ops_b), 0 to 1; 1 without operations.
  double matched_share() const;
};

/// Reads the spans of the ranks that both have recorded, one after the other. Fails:
/// invalid_argument (no step that both have), what the readers report; cancelled, soon after `stop`
/// is true.
Result<Comparison> compare(const Trace& a, const Trace& b, const std::atomic<bool>* stop = nullptr);

}  // namespace tessera::analysis
