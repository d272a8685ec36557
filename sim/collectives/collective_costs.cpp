// SPDX-License-Identifier: Apache-2.0
// Alpha-beta rings (Thakur, Rabenseifner, Gropp 2005, "Optimization of Collective Communication
// Operations in MPICH", section 3; what NCCL does is in docs/simulator.md).
#include "sim/collectives/collective_costs.h"

#include <algorithm>

#include "sim/duration.h"

namespace tessera::sim {
namespace {

double effective(const Link& link) { return link.bytes_per_s * link.efficiency; }

}  // namespace

Time CollectiveCosts::collective(const CollectiveShape& shape) const {
  if (shape.ranks <= 1) return 0;
  const double n = shape.ranks;
  if (shape.kind == OpKind::all_to_all) return all_to_all(shape);
  const bool both_ways = shape.kind == OpKind::all_reduce;  // reduce_scatter, then all_gather
  const bool pipelined = shape.kind == OpKind::broadcast || shape.kind == OpKind::reduce;
  const double rounds = both_ways ? 2 : 1;
  // Of the n - 1 steps of a round, nodes - 1 wait for the network (NCCL's tuning.cc counts
  // alike).
  const double between = shape.nodes - 1;
  const double within = n - 1 - between;
  const double latency_ns =
      rounds * (within * static_cast<double>(cluster_.intra_node.latency_ns) +
                between * static_cast<double>(cluster_.inter_node.latency_ns));
  const double volume =
      static_cast<double>(shape.bytes.value) * (pipelined ? 1.0 : rounds * (n - 1) / n);
  return cluster_.collective_launch_ns +
         to_time(latency_ns + volume / bus_bandwidth(shape) * ns_per_s);
}

std::string_view CollectiveCosts::algorithm(const CollectiveShape& shape) const {
  return shape.kind == OpKind::all_to_all ? "direct" : "ring";
}

// Every member sends a part to every other one; the way out of the node is each GPU's own NIC.
Time CollectiveCosts::all_to_all(const CollectiveShape& shape) const {
  const double part = static_cast<double>(shape.bytes.value) / shape.ranks;
  const double within = shape.ranks_per_node - 1;
  const double between = shape.ranks - shape.ranks_per_node;
  const double seconds = std::max(within * part / effective(cluster_.intra_node),
                                  between * part / effective(cluster_.inter_node));
  const Link& farthest = between > 0 ? cluster_.inter_node : cluster_.intra_node;
  return cluster_.collective_launch_ns + farthest.latency_ns + to_time(seconds * ns_per_s);
}

// Every GPU has a NIC of its own, and the rings of a group use those of all its members on a
// node. A group with one member per node never touches NVLink.
double CollectiveCosts::bus_bandwidth(const CollectiveShape& shape) const {
  const double inside = effective(cluster_.intra_node);
  if (shape.nodes <= 1) return inside;
  const double outside = effective(cluster_.inter_node) * shape.ranks_per_node;
  return shape.ranks_per_node == 1 ? outside : std::min(inside, outside);
}

}  // namespace tessera::sim
