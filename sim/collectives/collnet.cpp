// SPDX-License-Identifier: Apache-2.0
// CollNet: switches of the network reduce (SHARP). Direct: every GPU has a NIC and exchanges with
// all others of its node; chain: GPUs of a node hand on to each other.
#include <algorithm>

#include "sim/collectives/algorithm.h"

namespace tessera::sim {
namespace {

bool possible(const Task& task, Protocol protocol) {
  return task.facts.sharp && !task.one_node() && protocol == Protocol::simple;
}

// CollNet always counts on what a channel has within the node.
double direct_rate(const Task& task, Protocol protocol) {
  const Channels& heads = task.plan.ring;
  if (!possible(task, protocol) || !task.facts.nvlink) return 0;
  if (task.one_way()) return task.per_node * std::min(heads.inside, heads.between * 0.9);
  if (task.kind != OpKind::all_reduce) return 0;
  double per_nic = task.per_node / heads.count;
  per_nic -= (per_nic - 1) / 2;
  const double bus = heads.count * heads.inside / per_nic;
  return (task.facts.compute_capability >= 90 ? bus * 0.85 : bus) / 2;
}

double direct_latency(const Task& task, Protocol protocol) {
  const double others = task.chain - 1;
  const double inside = task.hop(task.inside(), Algorithm::collnet_direct, protocol);
  return 2 * (std::min(1.0, others) * inside + others * 0.4) +
         task.network_hop(Algorithm::collnet_direct, protocol);
}

double chain_rate(const Task& task, Protocol protocol) {
  if (!possible(task, protocol) || task.kind != OpKind::all_reduce) return 0;
  return task.plan.ring.count * task.plan.ring.inside / 2;
}

double chain_latency(const Task& task, Protocol protocol) {
  return 2 * (task.chain - 1) * task.hop(task.inside(), Algorithm::collnet_chain, protocol) +
         task.network_hop(Algorithm::collnet_chain, protocol);
}

}  // namespace

const AlgorithmRow collnet_direct_row = {Algorithm::collnet_direct, direct_rate, direct_latency,
                                         nullptr, nullptr};
const AlgorithmRow collnet_chain_row = {Algorithm::collnet_chain, chain_rate, chain_latency,
                                        nullptr, nullptr};

}  // namespace tessera::sim
