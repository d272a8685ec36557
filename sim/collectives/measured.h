// SPDX-License-Identifier: Apache-2.0
// What a machine was measured to do beside NCCL's own estimate: a few numbers of its cluster file.
//
// The idea: NCCL's constants were fitted on machines of its makers, with a kernel already running.
// A host adds time to every collective, a fabric to every step over it, a pipeline that fills takes
// a square root of the message, and links carry a little more or less than the search counts on.
#pragma once

#include "sim/collectives/algorithm.h"

namespace tessera::sim {

/// What NCCL estimates, in us.
struct Estimate {
  double latency = 0;
  double transfer = 0;  // bytes / rate
};

/// us that the collective takes on `cluster`.
double measured_us(const Cluster& cluster, const Task& task, Algorithm algorithm, Protocol protocol,
                   const Estimate& estimate, std::int64_t bytes);

/// The same of an all_to_all, which NCCL sends piece by piece.
double all_to_all_us(const Cluster& cluster, const CollectiveShape& shape, double crowding);

}  // namespace tessera::sim
