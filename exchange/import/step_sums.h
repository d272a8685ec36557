// SPDX-License-Identifier: Apache-2.0
// The summary of every step of every rank, from spans and memory.
#pragma once

#include <vector>

#include "exchange/import/step_table.h"

namespace tessera::exchange {

/// Columns of one rank, by step.
struct StepSums {
  std::vector<Time> compute, communication, exposed, blocking, wait;
  std::vector<Bytes> peak_allocated, peak_reserved;
};

/// A collective of one rank as the trace shows it.
struct CollectiveTimes {
  Time begin = 0, ready = 0, end = 0;
  std::int32_t part = 0;
};

/// `rank` is the place in ImportedRun::ranks(). Exposed is what of collectives lies where no lane
/// that computes works; blocking the part of it up to whose end compute did not go on: what stood
/// still for it cannot be told, so this is what may have.
StepSums step_sums(const ImportedRun& run, std::size_t rank, const StepTable& steps,
                   const std::vector<CollectiveTimes>& collectives);

}  // namespace tessera::exchange
