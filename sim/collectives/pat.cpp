// SPDX-License-Identifier: Apache-2.0
// Parallel aggregated trees: all_gather and reduce_scatter between single GPUs of many nodes, with
// a logarithm of network steps.
#include "sim/collectives/algorithm.h"

namespace tessera::sim {
namespace {

double pat_rate(const Task& task, Protocol protocol) {
  const bool alone = task.ranks == task.nodes;  // one GPU per node
  if (protocol != Protocol::simple || !task.constants.has_pat || !task.one_way() || !alone)
    return 0;
  return task.plan.tree.count * task.speed(task.plan.tree) * 0.75;
}

// The linear part is NCCL's, too.
double pat_latency(const Task& task, Protocol protocol) {
  return task.base(Algorithm::pat, protocol) +
         log2_floor(task.nodes) * task.network_hop(Algorithm::pat, protocol) / 3.5 +
         task.ranks * 2.8;
}

}  // namespace

const AlgorithmRow pat_row = {Algorithm::pat, pat_rate, pat_latency, nullptr, nullptr};

}  // namespace tessera::sim
