// SPDX-License-Identifier: Apache-2.0
// NVLink SHARP: the switch of a node reduces and copies. Between nodes it needs CollNet.
#include "sim/collectives/nvls.h"

#include <algorithm>

namespace tessera::sim {

double nvls_speed(const Task& task, bool tree) {
  const Channels& heads = task.plan.nvls;
  if (heads.count < 2) return 0;
  if (task.constants.early_nvls) {
    if (tree) return std::min(heads.inside, task.nodes <= 2 ? heads.between : heads.between / 2);
    if (!task.one_way()) return std::min(heads.inside, heads.between);
    const double others = (task.per_node - 1) / task.per_node;
    return std::min(heads.inside * others, heads.between * 0.9);
  }
  double inside = heads.inside * task.constants.nvls_efficiency * (heads.count - 1) / heads.count;
  inside *= task.one_way() ? (task.per_node - 1) / task.per_node : 2;
  const double between = heads.between * (tree && task.nodes <= 2 ? 2 : 1);
  return std::min(inside, between);
}

double nvls_bus_ratio(const Task& task) {
  return task.constants.early_nvls ? 5.0 / 6 : task.ranks / task.steps();
}

namespace {

double nvls_rate(const Task& task, Protocol protocol) {
  const bool possible = task.one_node() || task.facts.sharp;
  if (protocol != Protocol::simple || !possible) return 0;
  if (task.kind != OpKind::all_reduce && !task.one_way()) return 0;
  const double bus = task.plan.nvls.count * nvls_speed(task, /*tree=*/false);
  return task.one_way() && !task.constants.early_rings ? bus : bus * nvls_bus_ratio(task);
}

double nvls_latency(const Task& task, Protocol protocol) {
  const double inside = task.hop(task.inside(), Algorithm::nvls, protocol);
  return task.one_node() ? inside : inside + task.network_hop(Algorithm::nvls, protocol);
}

}  // namespace

const AlgorithmRow nvls_row = {Algorithm::nvls, nvls_rate, nvls_latency, nullptr, nullptr};

}  // namespace tessera::sim
