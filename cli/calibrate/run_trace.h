// SPDX-License-Identifier: Apache-2.0
// A recorded run of real processes: what ran, and what a step of it was made of.
//
// The idea: a process does one thing at a time, so a step is the sum of computations, copies, what
// collectives take beside those, and what passes between operations.
#pragma once

#include <string>
#include <vector>

#include "tessera/sim/calibrate.h"
#include "tessera/sim/simulate.h"

namespace tessera::cli {

/// Operations of one part in a step, as steps and ranks typically have them.
struct PartSum {
  std::string part;
  Phase phase = Phase::none;
  double count = 0, ns = 0;
};

struct RunTrace {
  std::string path;
  Model model;
  Scheme scheme;
  TrainingOptions training;
  TraceRun run;
  std::int64_t threads = 0;  // of each rank; 0: the trace does not say
  bool fp8 = false;          // linear layers of blocks multiplied in it
  std::vector<PartSum> parts;
  std::vector<sim::MeasuredCollective> collectives;
  double step_ns = 0;
  double idle_ns = 0;  // of it, between operations
};

/// Fails: as TraceReader::open; not_supported (a trace that does not say what it was made from);
/// invalid_argument (of a simulation, of fewer than 3 steps), naming the trace.
Result<RunTrace> read_run_trace(const std::string& path);

}  // namespace tessera::cli
