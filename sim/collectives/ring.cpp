// SPDX-License-Identifier: Apache-2.0
// Rings: the only algorithm for everything, and the only one of broadcast and reduce.
#include <algorithm>

#include "sim/collectives/algorithm.h"

namespace tessera::sim {
namespace {

bool pipelined(const Task& task) {
  return task.kind == OpKind::broadcast || task.kind == OpKind::reduce;
}

// LL sends a flag with every word, LL128 one with fifteen.
double ll_share(const Task& task) {
  if (!task.constants.early_rings) return 0.5;
  const bool once_around =
      task.one_node() && task.kind != OpKind::all_reduce && task.kind != OpKind::reduce;
  return once_around ? 1.0 / 3 : 0.25;
}

double ring_rate(const Task& task, Protocol protocol) {
  const Channels& ring = task.plan.ring;
  double bus = ring.count * task.speed(ring);
  if (protocol == Protocol::ll) {
    bus = std::min(task.most(task.constants.ll_most), bus * ll_share(task));
  }
  if (protocol == Protocol::ll128) {
    const double share = task.constants.early_rings && task.per_node < 2 ? 0.7 : 0.92;
    bus = std::min(bus * share, ring.count * task.most(task.constants.ring_ll128_most));
  }
  return bus * task.ranks / task.steps();
}

// The host posts every step that may wait for the network; Simple needs three posts.
double posting(const Task& task, Protocol protocol) {
  if (task.one_node()) return 0;
  const double post = task.facts.cpu == NcclFacts::Cpu::amd ? 2 : 1;
  return protocol == Protocol::simple ? 3 * post : post;
}

double ring_latency(const Task& task, Protocol protocol) {
  const double base = task.base(Algorithm::ring, protocol);
  if (pipelined(task)) {
    return base +
           task.hop(task.one_node() ? task.inside() : Hop::network, Algorithm::ring, protocol);
  }
  const double inside =
      std::max(task.hop(task.inside(), Algorithm::ring, protocol), posting(task, protocol));
  const double over_network = task.network_steps();
  return base + (task.steps() - over_network) * inside +
         over_network * task.network_hop(Algorithm::ring, protocol);
}

// Beyond 64 bytes per rank and channel Simple's all_reduce waits longer between nodes.
double ring_latency_at(const Task& task, Protocol protocol, std::int64_t bytes) {
  const bool waits = protocol == Protocol::simple && !task.one_node() &&
                     task.kind == OpKind::all_reduce &&
                     static_cast<double>(bytes) >= 64 * task.plan.blocks * task.ranks;
  if (!waits) return 1;
  return task.facts.compute_capability < 80 ? 1.9 : 1.4;
}

}  // namespace

const AlgorithmRow ring_row = {Algorithm::ring, ring_rate, ring_latency, nullptr, ring_latency_at};

}  // namespace tessera::sim
