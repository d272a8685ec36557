// SPDX-License-Identifier: Apache-2.0
// Two binary trees over nodes with a chain of GPUs in each: all_reduce in few steps.
#include <algorithm>

#include "sim/collectives/algorithm.h"

namespace tessera::sim {
namespace {

double tree_rate(const Task& task, Protocol protocol) {
  if (task.kind != OpKind::all_reduce) return 0;
  const Constants& c = task.constants;
  const Channels& tree = task.plan.tree;
  const double count = tree.count;
  double bus = std::min(count * task.speed(tree) * 0.92, count * task.most(c.tree_most));
  if (protocol == Protocol::ll) bus = std::min(bus / 3.8, task.most(c.ll_most));
  if (protocol == Protocol::ll128) {
    const double share = task.one_node() ? 7.0 / 9 : 120.0 / 128;
    bus = std::min(bus * share, count * task.most(c.tree_ll128_most));
  }
  if (task.plan.simple_tree) bus *= 0.85;
  return bus / 2;
}

double tree_latency(const Task& task, Protocol protocol) {
  const double inside = (task.chain - 1) * task.hop(task.inside(), Algorithm::tree, protocol);
  const double between = log2_floor(task.nodes) * task.network_hop(Algorithm::tree, protocol);
  return task.base(Algorithm::tree, protocol) + 2 * (inside + between);
}

double tree_rate_at(const Task&, Protocol protocol, std::int64_t bytes) {
  return tree_correction(protocol, bytes);
}

}  // namespace

const AlgorithmRow tree_row = {Algorithm::tree, tree_rate, tree_latency, tree_rate_at, nullptr};

}  // namespace tessera::sim
