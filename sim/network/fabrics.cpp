// SPDX-License-Identifier: Apache-2.0
// Fitted on published runs where docs/simulator.md says so; the others are assumptions.
#include "sim/network/fabrics.h"

#include <algorithm>
#include <array>
#include <utility>

namespace tessera::sim {
namespace {

const std::array<std::pair<std::string_view, Link>, 6>& fabrics() {
  static const std::array<std::pair<std::string_view, Link>, 6> all = {{
      {"infiniband",
       {.efficiency = 0.985, .latency_ns = 20'000, .nccl_share = 0.96, .launch_ns = 24'000}},
      {"roce", {.efficiency = 0.95, .latency_ns = 22'000, .nccl_share = 0.96, .launch_ns = 26'000}},
      {"efa",
       {.efficiency = 1,
        .latency_ns = 5'000,
        .nccl_share = 0.96,
        .launch_ns = 42'000,
        .sqrt_ns = 19'000}},
      {"tcpx",
       {.efficiency = 0.94,
        .latency_ns = 65'000,
        .nccl_share = 0.96,
        .launch_ns = 0,
        .tree_ll_share = 0.2,
        .tree_share = 1.33,
        .tree_ns = 690'000}},
      {"slingshot",
       {.efficiency = 0.9, .latency_ns = 25'000, .nccl_share = 0.96, .launch_ns = 30'000}},
      {"ethernet",
       {.efficiency = 0.85, .latency_ns = 60'000, .nccl_share = 0.96, .launch_ns = 60'000}},
  }};
  return all;
}

}  // namespace

const Link* find_fabric(std::string_view name) {
  for (const auto& [known, link] : fabrics()) {
    if (known == name) return &link;
  }
  return nullptr;
}

std::vector<std::string_view> fabric_names() {
  std::vector<std::string_view> names;
  for (const auto& [name, link] : fabrics()) names.push_back(name);
  return names;
}

double beyond_pods(const Link& link, Index nodes, double crossing) {
  if (link.nodes_per_pod == 0 || nodes <= link.nodes_per_pod) return 1;
  const double upwards = link.nodes_per_pod / link.oversubscription;  // nodes' worth of NICs
  return std::min(1.0, upwards / crossing);
}

}  // namespace tessera::sim
