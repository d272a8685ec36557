// SPDX-License-Identifier: Apache-2.0
// The steps of all ranks, counted from 0, and which span belongs to which.
#pragma once

#include <vector>

#include "exchange/import/imported_run.h"

namespace tessera::exchange {

struct StepRange {
  Time begin = 0, end = 0;
  bool known = false;  // of this rank
};

/// Parts of the run in order: what is before the first step, steps, what is behind the last.
class StepTable {
 public:
  /// Times of ranks are those of the trace. Where nobody has marked a step, all is one step, which
  /// is named in a warning.
  explicit StepTable(ImportedRun& run);

  std::int32_t steps() const { return static_cast<std::int32_t>(numbers_.size()); }
  /// steps() + 2.
  std::int32_t parts() const { return steps() + 2; }
  /// The step of a part; -1 before the first and behind the last.
  std::int32_t step_of(std::int32_t part) const { return part <= steps() ? part - 1 : -1; }

  /// Sets ImportedSpan::step of all to their part, ascending along lanes. REQUIRES: spans are
  /// sorted by lane and begin.
  void assign(std::size_t rank, std::vector<ImportedSpan>& spans) const;

  /// Of one rank, by step.
  const std::vector<StepRange>& ranges(std::size_t rank) const { return ranges_[rank]; }

 private:
  std::vector<std::int64_t> numbers_;  // of the source, ascending
  std::vector<std::vector<StepRange>> ranges_;
  std::vector<std::vector<Time>> begins_;  // the same, where unknown that of the others
};

}  // namespace tessera::exchange
