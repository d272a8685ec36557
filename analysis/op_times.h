// SPDX-License-Identifier: Apache-2.0
// What the operations of a run take, summed over ranks.
#pragma once

#include <vector>

#include "analysis/compared_steps.h"
#include "analysis/op_table.h"

namespace tessera::analysis {

/// Sums over ranks and steps that are compared, ns.
struct OpTimes {
  Time duration = 0, transfer = 0, waiting = 0;  // the latter two exposed
  Time beside = 0;                               // computing while a collective runs

  void add(const OpTimes& other) {
    duration += other.duration;
    transfer += other.transfer;
    waiting += other.waiting;
    beside += other.beside;
  }
};

/// By the index in the table.
using TimesOfOps = std::vector<OpTimes>;

/// Adds those of one rank in the steps to `times`. Fails: as TraceReader::lanes.
Status add_rank(const Trace& trace, const OpTable& table, Rank rank, const ComparedSteps& steps,
                TimesOfOps& times);

}  // namespace tessera::analysis
