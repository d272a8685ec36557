// SPDX-License-Identifier: Apache-2.0
// The links of a cluster as its collectives and copies see them.
#pragma once

#include "tessera/types.h"

namespace tessera::sim {

/// A ring's view of a link: time = latency_ns per hop + bytes / (bytes_per_s * efficiency).
struct Link {
  double bytes_per_s = 0;  // one direction, per GPU
  double efficiency = 1;   // share that NCCL reaches with large messages
  Time latency_ns = 0;     // per ring step over this link
};

}  // namespace tessera::sim
