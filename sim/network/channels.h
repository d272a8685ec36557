// SPDX-License-Identifier: Apache-2.0
// The channels that NCCL's search finds for a group: how many rings, trees and NVLS heads of which
// speed fit on the links of a node.
//
// The idea: NCCL searches a graph of links (search.cc, v2.28.9). On nodes whose GPUs are all alike
// the outcome follows from four numbers: what a GPU's NVLink and one NIC carry, how many GPUs of a
// node take part, and how many NICs those have.
#pragma once

#include "tessera/sim/cost_model.h"

namespace tessera::sim {

/// Channels of one kind; speeds in GB/s per channel, as NCCL counts them.
struct Channels {
  int count = 0;
  double inside = 0;   // within the node
  double between = 0;  // over the network
};

struct ChannelPlan {
  Channels ring, tree, nvls;
  bool simple_tree = false;  // a node enters by the GPU it leaves by, not by another
  int blocks = 0;            // channels, that is SMs, which kernels take at most
  double crowding = 1;       // share of a NIC that is left where groups on one node need it, too
};

ChannelPlan find_channels(const Cluster& cluster, const CollectiveShape& shape);

}  // namespace tessera::sim
