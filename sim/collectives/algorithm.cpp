// SPDX-License-Identifier: Apache-2.0
#include "sim/collectives/algorithm.h"

#include <array>

namespace tessera::sim {
double Task::steps() const {
  if (kind == OpKind::all_reduce) return 2 * (ranks - 1);
  return one_way() ? ranks - 1 : ranks;
}

double Task::network_steps() const {
  if (one_node()) return 0;
  const bool all_reduce = kind == OpKind::all_reduce;
  if (constants.early_rings) return all_reduce ? 2 * nodes : one_way() ? nodes - 1 : nodes;
  return all_reduce ? 2 * (nodes - 1) : nodes - 1;
}

double Task::base(Algorithm algorithm, Protocol protocol) const {
  return constants.base[at(algorithm)][at(protocol)];
}

double Task::hop(Hop hop, Algorithm algorithm, Protocol protocol) const {
  return constants.hop[at(hop)][at(algorithm)][at(protocol)];
}

double Task::network_hop(Algorithm algorithm, Protocol protocol) const {
  const bool alone = per_node == 1 && constants.tree_latency_alone;
  return hop(Hop::network, alone ? Algorithm::tree : algorithm, protocol);
}

std::span<const AlgorithmRow* const> algorithm_table() {
  static constexpr std::array<const AlgorithmRow*, algorithms> table = {
      &tree_row,      &ring_row, &collnet_direct_row, &collnet_chain_row, &nvls_row,
      &nvls_tree_row, &pat_row};
  return table;
}

}  // namespace tessera::sim
