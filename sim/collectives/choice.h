// SPDX-License-Identifier: Apache-2.0
// Which algorithm and protocol NCCL takes, with how many channels, and its own estimate of the time
// (topoGetAlgoInfo and ncclTopoGetAlgoTime, v2.28.9).
#pragma once

#include "sim/collectives/algorithm.h"
#include "sim/collectives/measured.h"

namespace tessera::sim {

struct Choice {
  Algorithm algorithm = Algorithm::ring;
  Protocol protocol = Protocol::simple;
  int channels = 1;
  Estimate estimate;
};

/// Every group can use a ring with Simple, so there always is one.
Choice choose(const Task& task, std::int64_t bytes);

}  // namespace tessera::sim
