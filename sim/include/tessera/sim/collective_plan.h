// SPDX-License-Identifier: Apache-2.0
// One collective on a cluster: how NCCL carries it out and how long it takes.
//
//   CollectiveShape shape{OpKind::all_reduce, Bytes{1 << 30}, 16, 2, 8};   // 16 ranks on 2 nodes
//   CollectivePlan plan = plan_collective(*load_cluster("dgx-h100", 2), shape);
//   plan.algorithm;   // "NVLSTree"
#pragma once

#include <string>

#include "tessera/sim/cost_model.h"

namespace tessera::sim {

struct CollectivePlan {
  std::string algorithm;  // "Ring", ... as NCCL names it; "Direct": all_to_all; "none": one rank
  std::string protocol;   // "LL", "LL128", "Simple"; "" where NCCL chooses none
  int channels = 0;       // that a kernel uses, each a block on an SM
  double nccl_us = 0;     // NCCL's own estimate; 0 where it has none
  Time time = 0;          // with what the cluster was measured to differ
};

/// From the last member's arrival to the end on all of them.
CollectivePlan plan_collective(const Cluster& cluster, const CollectiveShape& shape);

}  // namespace tessera::sim
