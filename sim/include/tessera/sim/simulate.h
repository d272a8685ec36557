// SPDX-License-Identifier: Apache-2.0
// A whole simulated run in one call: model, cluster and scheme in, trace out.
//
//   SimulateOptions options{.cluster = *load_cluster("dgx-h100", 8), .steps = 4, .sink = writer};
//   Result<SimulateSummary> summary = simulate(model, options);
#pragma once

#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "tessera/scheme.h"
#include "tessera/sim/cluster.h"
#include "tessera/sim/host_program.h"
#include "tessera/sim/lockstep_runtime.h"
#include "tessera/training.h"

namespace tessera::sim {

struct SimulateOptions {
  Cluster cluster = {};
  StackProfile stack = {};
  std::uint64_t seed = 0;
  double jitter = 0;
  std::vector<SlowRank> slow_ranks = {};
  std::vector<SlowLink> slow_links = {};
  Scheme scheme = {};
  TrainingOptions training = {};
  std::int32_t steps = 4;
  std::vector<Rank> recorded_ranks = {};  // ascending
  // As in TraceRun.
  std::int32_t recorded_from = 0, recorded_to = std::numeric_limits<std::int32_t>::max();
  bool records_memory = true;
  bool only_collectives = false;  // of operations, the sink hears of these alone
  std::string run_name = {};      // for titles
  std::string sources = {};       // TraceRun::sources
  std::string version = {};       // of the writer, for the trace
  TraceSink* sink = nullptr;      // may be null
  std::function<void(std::int32_t step, std::int32_t steps)> progress = {};  // after every step
  std::function<bool()> stopped = {};  // asked after every step: true ends the run there
  bool ends_when_full = false;         // what does not fit fails with out_of_memory
  bool repeats = true;                 // steps like the one before need no engine: same trace
  /// Required where StackProfile::program is `train`; the program that such a profile is of.
  HostProgramMaker program = {};
};

struct SimulateSummary {
  std::int32_t steps = 0;           // fewer than wanted if the run was stopped
  std::int32_t repeated_steps = 0;  // of them, by LockstepRuntime::repeat_step
  bool fits = true;
  std::string out_of_memory;  // one sentence if it does not fit
  Bytes peak_reserved{};
  std::int64_t cache_returns = 0;  // above 0: it only fits because cached memory was given back
  Numel parameters{};
  std::vector<UnitInfo> units;
  std::vector<std::string> warnings;  // of the scheme
  std::int64_t op_ranks = 0;
};

/// Fails: invalid_argument, if simulating so many ranks would take too long, or more memory than
/// machines have. `simulate` asks, and who simulates several schemes may ask before.
Status check_ranks(const Scheme& scheme, Rank ranks);

/// Runs `steps` training steps of `model` on the simulated cluster. Calls sink->begin but not
/// finish. Fails: invalid_argument (options), out_of_memory (ends_when_full), hazard (a fault of
/// the schedule).
Result<SimulateSummary> simulate(const Model& model, const SimulateOptions& options);

/// The `count` ranks whose kernels take longest all through the run, by the cluster's spread and
/// `slow_ranks`, ascending; the first of those that are equal. The others wait for them, so a trace
/// of some ranks should have these.
std::vector<Rank> slowest_ranks(const SimulateOptions& options, Rank count);

/// For a run that does not fit: up to three changes of which each would make it fit, as flags of
/// the program ("--checkpointing full", "--nodes 4"). Each was simulated for two steps. Empty: none
/// of those that were tried was enough.
std::vector<std::string> what_would_fit(const Model& model, const SimulateOptions& options);

}  // namespace tessera::sim
