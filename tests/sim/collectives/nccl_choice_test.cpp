// SPDX-License-Identifier: Apache-2.0
// The choice and the estimate of NCCL 2.28.9 for machines that have no GPU here:
// tests/golden/collectives/nccl_choices.txt.
#include <catch2/catch.hpp>
#include <cmath>
#include <fstream>
#include <sstream>

#include "sim/network/channels.h"
#include "tessera/sim/collective_plan.h"

namespace tessera::sim {
namespace {

// Eight GPUs with four NICs of 100 Gb/s.
Cluster four_nics() {
  Cluster cluster = *load_cluster("dgx-a100", 1);
  cluster.inter_node.bytes_per_s = 6.25e9;
  cluster.nccl.nics_per_node = 4;
  return cluster;
}

// Eight GPUs on two sockets, which sixteen GB/s connect, and a NIC of 100 Gb/s each.
Cluster pcie_box() {
  Cluster cluster = *load_cluster("dgx-a100", 1);
  cluster.intra_node.bytes_per_s = 20e9;
  cluster.inter_node.bytes_per_s = 12.5e9;
  cluster.nccl.nvlink = false;
  return cluster;
}

Cluster cluster_named(const std::string& name) {
  if (name == "four-nics") return four_nics();
  return name == "pcie" ? pcie_box() : *load_cluster(name, 1);
}

OpKind kind_named(const std::string& name) {
  if (name == "all_gather") return OpKind::all_gather;
  return name == "all_reduce" ? OpKind::all_reduce : OpKind::reduce_scatter;
}

CollectivePlan plan_on(const Cluster& cluster, OpKind kind, std::int64_t bytes, Index nodes,
                       Index per_node) {
  return plan_collective(cluster, {kind, Bytes{bytes}, nodes * per_node, nodes, per_node});
}

}  // namespace

TEST_CASE("the choice and the estimate are those of NCCL 2.28.9", "[collectives][golden]") {
  std::ifstream file(std::string(TESSERA_SOURCE_DIR) +
                     "/tests/golden/collectives/nccl_choices.txt");
  std::string line;
  int rows = 0;
  while (std::getline(file, line)) {
    if (line.starts_with('#')) continue;
    std::istringstream words(line);
    std::string cluster, operation, algorithm, protocol;
    Index nodes = 0;
    Index per_node = 0;
    std::int64_t bytes = 0;
    double us = 0;
    words >> cluster >> nodes >> per_node >> operation >> bytes >> algorithm >> protocol >> us;
    REQUIRE_FALSE(words.fail());
    CAPTURE(line);
    const auto plan =
        plan_on(cluster_named(cluster), kind_named(operation), bytes, nodes, per_node);
    CHECK(plan.algorithm == algorithm);
    CHECK(plan.protocol == protocol);
    // The golden figures have one decimal.
    CHECK(std::abs(plan.nccl_us - us) <= std::max(0.0501, us * 1e-3));
    ++rows;
  }
  CHECK(rows > 200);
}

TEST_CASE("the search finds the channels that NCCL finds", "[collectives]") {
  const auto found = [](const char* name, Index nodes, Index per_node) {
    return find_channels(*load_cluster(name, 1),
                         {OpKind::all_reduce, Bytes{}, nodes * per_node, nodes, per_node});
  };
  const ChannelPlan h100 = found("dgx-h100", 1, 8);
  CHECK(h100.ring.count == 12);
  CHECK(h100.ring.inside == 30);
  CHECK(h100.nvls.count == 8);
  CHECK(h100.nvls.inside == 40);
  CHECK(h100.nvls.between == 60);
  CHECK(h100.blocks == 24);
  const ChannelPlan h100s = found("dgx-h100", 4, 8);
  CHECK(h100s.ring.count == 8);
  CHECK(h100s.ring.between == 48);
  CHECK(h100s.simple_tree);
  const ChannelPlan a100s = found("dgx-a100", 2, 8);
  CHECK(a100s.tree.inside == 30);
  CHECK(a100s.tree.between == 24);
  CHECK_FALSE(a100s.simple_tree);
  const ChannelPlan alone = found("dgx-h100", 4, 1);
  CHECK(alone.ring.count == 2);
  CHECK(alone.ring.inside == 24);
}

TEST_CASE("versions of NCCL differ", "[collectives]") {
  Cluster cluster = *load_cluster("dgx-h100", 1);
  const auto us = [&](const char* version, OpKind kind, std::int64_t bytes, Index nodes,
                      Index per_node) {
    cluster.nccl.version = version;
    return plan_on(cluster, kind, bytes, nodes, per_node).nccl_us;
  };
  // LL's ring: a third of 360 GB/s up to 87.7 in 2.19, half of it up to 141 later.
  const double early = us("2.19", OpKind::all_gather, 1 << 20, 1, 8);
  CHECK(early == Approx(6.6 + 7 * 0.6 + (1 << 20) / (87.7e3 * 8 / 7)));
  CHECK(us("2.28", OpKind::all_gather, 1 << 20, 1, 8) < early);
  // Heads reach 320 GB/s by an assumed ratio before 2.28, and 476 by measured ones since.
  const double large = 1LL << 32;
  CHECK(us("2.27", OpKind::all_reduce, 1LL << 32, 1, 8) == Approx(25 + large / (8 * 40e3 * 5 / 6)));
  CHECK(us("2.28", OpKind::all_reduce, 1LL << 32, 1, 8) ==
        Approx(25 + large / (8 * 40e3 * 0.85 * 7 / 8 * 2 * 8 / 14)));
  cluster.nccl.version = "2.19";
  CHECK(plan_on(cluster, OpKind::all_gather, 4096, 64, 1).algorithm == "Ring");
  cluster.nccl.version = "2.27";
  CHECK(plan_on(cluster, OpKind::all_gather, 4096, 64, 1).algorithm == "PAT");
  Cluster b200 = *load_cluster("dgx-b200", 1);
  const double before = plan_on(b200, OpKind::all_gather, 1 << 27, 4, 8).nccl_us;
  b200.nccl.version = "2.30";
  CHECK(plan_on(b200, OpKind::all_gather, 1 << 27, 4, 8).nccl_us > before);  // LL128: 40 a channel
}

TEST_CASE("switches that reduce are used where the cluster has them", "[collectives]") {
  Cluster cluster = *load_cluster("dgx-h100", 1);
  const auto plan = plan_on(cluster, OpKind::all_reduce, 1LL << 30, 16, 8);
  CHECK(plan.algorithm == "NVLSTree");
  cluster.nccl.sharp = true;
  const auto sharp = plan_on(cluster, OpKind::all_reduce, 1LL << 30, 16, 8);
  CHECK((sharp.algorithm == "NVLS" || sharp.algorithm.starts_with("CollNet")));
  CHECK(sharp.time < plan.time);
}

TEST_CASE("small messages take fewer channels", "[collectives]") {
  const Cluster cluster = *load_cluster("dgx-h100", 1);
  CHECK(plan_on(cluster, OpKind::all_gather, 4096, 1, 8).channels == 1);
  CHECK(plan_on(cluster, OpKind::all_gather, 1 << 30, 1, 8).channels == 24);
  CHECK(plan_on(cluster, OpKind::all_reduce, 1 << 30, 1, 8).channels == 16);
}

}  // namespace tessera::sim
