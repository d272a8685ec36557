// SPDX-License-Identifier: Apache-2.0
// NVLink SHARP within nodes, binary trees between them: all_reduce.
#include <algorithm>

#include "sim/collectives/nvls.h"

namespace tessera::sim {
namespace {

double nvls_tree_rate(const Task& task, Protocol protocol) {
  const bool possible = !task.one_node() && task.facts.nvls_between;
  if (protocol != Protocol::simple || !possible || task.kind != OpKind::all_reduce) return 0;
  double speed = nvls_speed(task, /*tree=*/true);
  if (!task.constants.early_nvls) {
    speed = std::min(speed, task.most(task.constants.nvls_tree_most));
  }
  return task.plan.nvls.count * speed * nvls_bus_ratio(task);
}

double nvls_tree_latency(const Task& task, Protocol protocol) {
  return task.hop(task.inside(), Algorithm::nvls_tree, protocol) +
         2 * log2_floor(task.nodes) * task.network_hop(Algorithm::nvls_tree, protocol);
}

double nvls_tree_rate_at(const Task& task, Protocol protocol, std::int64_t bytes) {
  return task.constants.nvls_tree_corrected ? tree_correction(protocol, bytes) : 1;
}

}  // namespace

const AlgorithmRow nvls_tree_row = {Algorithm::nvls_tree, nvls_tree_rate, nvls_tree_latency,
                                    nvls_tree_rate_at, nullptr};

}  // namespace tessera::sim
