// SPDX-License-Identifier: Apache-2.0
// Faults of a run, found without being asked: each with the figures that show it and what would
// change it. Faults come first, the costliest before the others, then what only follows from the
// run's options.
//
// The idea: a finding is a claim that a person can check, so it names rank, step or operation, says
// what it is compared with, and is left out where chance would explain it. A run of like ranks with
// nothing but jitter has none.
//
//   TESSERA_ASSIGN(const auto findings, analysis::findings_of(trace));
//   for (const Finding& f : findings) print(f.title, f.evidence, f.advice);
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tessera/analysis/metric_table.h"
#include "tessera/analysis/trace.h"

namespace tessera::analysis {

enum class FindingKind : std::uint8_t {
  failure,            // the run reported an error
  slow_rank,          // computes longer than the others, which wait for it
  slow_link,          // its collectives take longer than those of other groups, which lie alike
  late_gather,        // a unit is gathered too late, while others come in time
  unbalanced_memory,  // a rank holds more than the others
  memory_growth,      // the least that steps need rises all through the run, of all ranks or some
  fragmentation,      // nearly all memory is reserved, and much of that unused
  exposed,            // collectives take most of the step, while nothing computes; no fault
  idle,               // neither they nor compute run most of the step; no fault either
};

struct Finding {
  FindingKind kind = FindingKind::failure;
  std::string title;     // one sentence: who, what, how much
  std::string evidence;  // one sentence: the figures, and what they are compared with
  std::string advice;    // one sentence: what would change it, options of `tessera` by name
  double cost = 0;       // share of the step that it costs, or of the memory; errors more than all
  Rank rank = -1;        // where to look, -1: all
  std::int32_t step = -1;
  std::int32_t op = -1;      // an op to look at, -1: none
  std::optional<Time> time;  // the moment, ns
};

/// Reads the steps of all ranks, and spans of the last few steps of one rank.
/// Fails: with what the reader reports.
Result<std::vector<Finding>> findings_of(const Trace& trace);

/// Metrics of all ranks and steps that show findings, and what each of them shows: for who has
/// their tables anyway, so that steps are not read again.
inline constexpr std::array finding_metrics{Metric::compute, Metric::transfer, Metric::peak_memory};
using ShownFindings = std::array<std::vector<Finding>, finding_metrics.size()>;

/// What the table of one of `finding_metrics` shows.
std::vector<Finding> shown_by(const Trace& trace, const MetricTable& table);
/// All, with what these show. Fails: likewise.
Result<std::vector<Finding>> findings_of(const Trace& trace, ShownFindings shown);

}  // namespace tessera::analysis
