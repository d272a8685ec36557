// SPDX-License-Identifier: Apache-2.0
// What was validated: sim/validation/families.json, which scripts/validate writes.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace tessera::sim {

/// From and to, both included.
struct Span {
  double least = 0, most = 0;
};

/// Runs of one source, GPU and profile. A memory family has no GPU: bytes are those of any.
struct RunFamily {
  std::string name, profile, gpu;
  std::vector<std::string> clusters, schemes;
  Span ranks, parameters;
  Span sequence, tokens;  // of a sequence, of a micro-batch
  std::vector<std::string> checkpointing;
  std::string offload, frozen;
  Span micro_batches{1, 1};
  bool fitted = false;  // its profile was fitted to these runs, or to some of them
  /// Values that options had; those that are not named could have any.
  std::map<std::string, std::vector<std::string>> options;
  std::int64_t rows = 0;
  double p90 = 0;
};

/// Measured collectives of one cluster.
struct CollectiveFamily {
  std::string cluster, operation;
  Span nodes, bytes;
  std::int64_t rows = 0;
  double p90 = 0;
};

/// All runs of step_times whose profile was fitted to nothing: what a prediction for a system that
/// nobody has measured is worth.
struct UnfittedRuns {
  std::int64_t rows = 0;
  double p90 = 0;
};

struct Families {
  std::vector<RunFamily> step_times, memory;
  UnfittedRuns unfitted;
  std::vector<CollectiveFamily> collectives;
};

Families validated();

}  // namespace tessera::sim
