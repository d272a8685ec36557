// SPDX-License-Identifier: Apache-2.0
// One way to carry out a collective, as NCCL estimates it: one file each, one row of a table.
//
// The idea: an algorithm gives a latency and a rate per protocol, the chooser compares
// latency + bytes / rate. What was measured to differ is added afterwards (measured.h), so that the
// choice stays NCCL's own. Times in us, rates in GB/s of the collective's bytes.
#pragma once

#include <span>

#include "sim/collectives/constants.h"
#include "sim/network/channels.h"

namespace tessera::sim {

/// A group and the operation it carries out; everything but the size.
struct Task {
  OpKind kind = OpKind::all_gather;
  double ranks = 1;
  Index nodes = 1;
  double per_node = 1;  // ranks / nodes, perhaps a fraction
  Index chain = 1;      // whole GPUs of a node, as NCCL divides
  const NcclFacts& facts;
  const Nvls& nvls;
  const Constants& constants;
  const ChannelPlan& plan;

  bool one_node() const { return nodes <= 1; }
  /// One direction only: all_gather or reduce_scatter.
  bool one_way() const { return kind == OpKind::all_gather || kind == OpKind::reduce_scatter; }
  /// Steps of a ring, and those of them that cross the network.
  double steps() const;
  double network_steps() const;

  double base(Algorithm algorithm, Protocol protocol) const;
  double hop(Hop hop, Algorithm algorithm, Protocol protocol) const;
  /// What links within a node are.
  Hop inside() const { return facts.nvlink && chain > 1 ? Hop::nvlink : Hop::pcie; }
  /// A network step of `algorithm`, but a tree's where every node has one GPU.
  double network_hop(Algorithm algorithm, Protocol protocol) const;
  /// Speed of a channel as NCCL counts it: two nodes exchange what they have within.
  double speed(const Channels& channels) const {
    return nodes <= 2 ? channels.inside : channels.between;
  }
  double most(const PerNodes& rates) const { return rates[nodes <= 2 ? (nodes > 1 ? 1 : 0) : 2]; }
};

/// A row of the table. A rate of 0: not by this algorithm and protocol.
struct AlgorithmRow {
  Algorithm algorithm;
  double (*rate)(const Task& task, Protocol protocol);
  double (*latency)(const Task& task, Protocol protocol);
  /// Factors at a size, of the rate and of the latency; may be null.
  double (*rate_at)(const Task& task, Protocol protocol, std::int64_t bytes);
  double (*latency_at)(const Task& task, Protocol protocol, std::int64_t bytes);
};

extern const AlgorithmRow tree_row, ring_row, collnet_direct_row, collnet_chain_row, nvls_row,
    nvls_tree_row, pat_row;

/// All rows in the order in which NCCL compares them: the first of equals wins.
std::span<const AlgorithmRow* const> algorithm_table();

}  // namespace tessera::sim
