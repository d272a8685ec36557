// SPDX-License-Identifier: Apache-2.0
// How long an operation takes on an idle machine: the physics the simulator charges.
//
// The idea: cost models see shapes, never schedules. Contention between operations is the
// simulator's business. Times are rounded to ns once, at the end of a formula.
//
//   std::unique_ptr<CostModel> cost = make_cost_model(cluster);
//   Time t = cost->collective({OpKind::all_gather, Bytes{436'224'000}, 64, 8, 8});
#pragma once

#include <memory>
#include <string_view>

#include "tessera/op.h"
#include "tessera/sim/cluster.h"
#include "tessera/sim/stack_profile.h"

namespace tessera::sim {

/// What a collective looks like to the network.
struct CollectiveShape {
  OpKind kind = OpKind::all_gather;
  Bytes bytes{};              // as nccl-tests define it: AG/RS the gathered buffer
  Index ranks = 1;            // group size
  Index nodes = 1;            // nodes the group touches
  Index ranks_per_node = 1;   // largest number of members on one node
  Index fewest_per_node = 0;  // smallest, where nodes differ
};

class CostModel {
 public:
  virtual ~CostModel() = default;

  /// One rank's kernels, launch overhead included.
  virtual Time compute(const ComputeCost& cost) const = 0;
  /// A copy of `bytes` (read once, written once) on the route.
  virtual Time copy(Bytes bytes, CopyRoute route) const = 0;
  /// From the last member's arrival to the end on every member.
  virtual Time collective(const CollectiveShape& shape) const = 0;
  /// How it was charged: "Ring LL128, 24 channels". Valid as long as the model.
  virtual std::string_view algorithm(const CollectiveShape& shape) const = 0;
};

/// Kernels by their curves, and collectives as NCCL carries them out over the links of `cluster`
/// (docs/simulator.md); `stack` says which kernels, attention_of knows its attention. It remembers
/// what it was asked: one thread at a time.
std::unique_ptr<CostModel> make_cost_model(const Cluster& cluster, const StackProfile& stack = {});

}  // namespace tessera::sim
