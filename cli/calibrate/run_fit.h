// SPDX-License-Identifier: Apache-2.0
// A cluster and a profile that take as long as recorded runs did.
#pragma once

#include <string>
#include <vector>

#include "cli/calibrate/run_trace.h"

namespace tessera::cli {

struct RunFit {
  std::string cluster, profile;  // JSON texts
  // By run, predicted / measured - 1: fitted to all, and fitted to all others.
  std::vector<double> errors, errors_of_others;
};

/// REQUIRES: runs of the same number of ranks. Fails: as simulate.
Result<RunFit> fit_runs(const std::vector<RunTrace>& runs);

}  // namespace tessera::cli
