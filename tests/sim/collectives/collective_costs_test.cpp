// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>

#include "tessera/sim/cost_model.h"
#include "tests/random.h"

namespace tessera::sim {
namespace {

constexpr std::int64_t mib = 1 << 20;
constexpr std::int64_t gib = 1 << 30;

// Numbers that are easy to compute with by hand.
Cluster round_links() {
  Cluster cluster{.name = "round", .nodes = 4, .gpus_per_node = 4};
  cluster.gpu = {.name = "g",
                 .memory = Bytes{gib},
                 .bf16_flops_per_s = 1e12,
                 .fp32_flops_per_s = 1e11,
                 .matmul_efficiency = 0.5,
                 .attention_efficiency = 0.25,
                 .memory_bytes_per_s = 1e12,
                 .memory_efficiency = 0.5,
                 .kernel_launch_ns = 1000};
  cluster.intra_node = {.bytes_per_s = 100e9, .efficiency = 1, .latency_ns = 10};
  cluster.inter_node = {.bytes_per_s = 10e9, .efficiency = 1, .latency_ns = 100};
  cluster.host = {.bytes_per_s = 20e9, .efficiency = 0.5, .latency_ns = 500};
  cluster.collective_launch_ns = 7;
  return cluster;
}

Time collective(const Cluster& cluster, const CollectiveShape& shape) {
  return make_cost_model(cluster)->collective(shape);
}

// GB/s as nccl-tests define it.
double bus_bandwidth(const Cluster& cluster, const CollectiveShape& shape) {
  const double n = shape.ranks;
  const double factor = (shape.kind == OpKind::all_reduce ? 2.0 : 1.0) * (n - 1) / n;
  return factor * static_cast<double>(shape.bytes.value) /
         static_cast<double>(collective(cluster, shape));
}

Cluster preset(const char* name) { return *load_cluster(name, 1); }

}  // namespace

TEST_CASE("a ring on one node has n - 1 NVLink steps", "[collectives]") {
  const Cluster cluster = round_links();
  const Bytes bytes{4'000'000};  // 3/4 of it cross each link: 30'000 ns
  CHECK(collective(cluster, {OpKind::all_gather, bytes, 4, 1, 4}) == 7 + 3 * 10 + 30'000);
  CHECK(collective(cluster, {OpKind::reduce_scatter, bytes, 4, 1, 4}) == 7 + 3 * 10 + 30'000);
  CHECK(collective(cluster, {OpKind::all_reduce, bytes, 4, 1, 4}) == 7 + 6 * 10 + 60'000);
  CHECK(collective(cluster, {OpKind::broadcast, bytes, 4, 1, 4}) == 7 + 3 * 10 + 40'000);
  CHECK(collective(cluster, {OpKind::reduce, bytes, 4, 1, 4}) == 7 + 3 * 10 + 40'000);
}

TEST_CASE("a ring over nodes has nodes - 1 network steps and all the NICs of a node",
          "[collectives]") {
  const Cluster cluster = round_links();
  const Bytes bytes{16'000'000};  // 15/16 of it over 4 NICs of 10 GB/s: 375'000 ns
  CHECK(collective(cluster, {OpKind::all_gather, bytes, 16, 4, 4}) ==
        7 + 12 * 10 + 3 * 100 + 375'000);
  CHECK(collective(cluster, {OpKind::all_reduce, bytes, 16, 4, 4}) ==
        7 + 24 * 10 + 6 * 100 + 750'000);
}

TEST_CASE("a group with one member per node only has its own NIC", "[collectives]") {
  const Bytes bytes{4'000'000};  // 3/4 of it over 10 GB/s: 300'000 ns
  CHECK(collective(round_links(), {OpKind::all_gather, bytes, 4, 4, 1}) == 7 + 3 * 100 + 300'000);
}

TEST_CASE("a ring over nodes is never faster than NVLink", "[collectives]") {
  Cluster cluster = round_links();
  cluster.inter_node.bytes_per_s = 400e9;
  const Bytes bytes{16'000'000};
  CHECK(collective(cluster, {OpKind::all_gather, bytes, 16, 4, 4}) ==
        7 + 12 * 10 + 3 * 100 + 150'000);
}

TEST_CASE("a group of one costs nothing", "[collectives]") {
  for (const OpKind kind : {OpKind::all_gather, OpKind::reduce_scatter, OpKind::all_reduce,
                            OpKind::broadcast, OpKind::reduce}) {
    CHECK(collective(preset("dgx-h100"), {kind, Bytes{gib}, 1, 1, 1}) == 0);
  }
}

TEST_CASE("an empty collective still costs its launch and its steps", "[collectives]") {
  CHECK(collective(round_links(), {OpKind::all_gather, Bytes{0}, 4, 1, 4}) == 7 + 3 * 10);
}

TEST_CASE("more bytes and more nodes never take less time", "[collectives]") {
  const Cluster cluster = preset("dgx-h100");
  const std::uint64_t seed = 20;
  INFO("seed " << seed);
  test::Random random(seed);
  for (int round = 0; round < 2000; ++round) {
    const OpKind kind = static_cast<OpKind>(random.below(5));
    const Index nodes = 1 + static_cast<Index>(random.below(512));
    const Index per_node = 1 + static_cast<Index>(random.below(8));
    const Bytes bytes{random.below(std::int64_t{1} << (10 + random.below(30)))};
    const CollectiveShape shape{kind, bytes, nodes * per_node, nodes, per_node};
    CollectiveShape larger = shape;
    larger.bytes += Bytes{random.below(gib)};
    CollectiveShape wider = shape;
    wider.nodes += 1 + static_cast<Index>(random.below(512));
    wider.ranks = wider.nodes * per_node;
    const Time time = collective(cluster, shape);
    CAPTURE(round, nodes, per_node, bytes.value, static_cast<int>(kind));
    CHECK(time >= 0);
    CHECK(collective(cluster, larger) >= time);
    CHECK(collective(cluster, wider) >= time);
  }
}

TEST_CASE("the sizes of a 405B model on 16,384 ranks do not overflow", "[collectives]") {
  const Cluster cluster = preset("dgx-h100");
  const Bytes parameters{405'853'388'800 * 4};
  const Time whole = collective(cluster, {OpKind::all_reduce, parameters, 16'384, 2048, 8});
  CHECK(whole > 8'000'000'000);
  CHECK(whole < 12'000'000'000);
  Cluster slow = cluster;
  slow.inter_node.bytes_per_s = 1e6;
  slow.inter_node.efficiency = 0.01;
  CHECK(collective(slow, {OpKind::all_reduce, Bytes{std::int64_t{1} << 62}, 2, 2, 1}) ==
        Time{4'000'000'000'000'000} + cluster.collective_launch_ns);
}

TEST_CASE("large collectives reach what nccl-tests measured with rings",
          "[collectives][validation]") {
  const Cluster h100 = preset("dgx-h100");
  const Cluster a100 = preset("dgx-a100");
  // 8 x H200 (the same NVLink) at 16 GiB: all_gather 361, reduce_scatter 363, ring all_reduce 367
  // (stas00/ml-engineering); multi-node DGX H100 370-380, DGX A100 192 (NVIDIA GTC25 S72583).
  CHECK(bus_bandwidth(h100, {OpKind::all_gather, Bytes{16 * gib}, 8, 1, 8}) ==
        Approx(361).epsilon(0.05));
  CHECK(bus_bandwidth(h100, {OpKind::reduce_scatter, Bytes{16 * gib}, 8, 1, 8}) ==
        Approx(363).epsilon(0.05));
  CHECK(bus_bandwidth(h100, {OpKind::all_reduce, Bytes{16 * gib}, 8, 1, 8}) ==
        Approx(367).epsilon(0.05));
  CHECK(bus_bandwidth(h100, {OpKind::all_reduce, Bytes{16 * gib}, 64, 8, 8}) ==
        Approx(375).epsilon(0.05));
  CHECK(bus_bandwidth(a100, {OpKind::all_reduce, Bytes{8 * gib}, 8, 1, 8}) ==
        Approx(235).epsilon(0.05));
  CHECK(bus_bandwidth(a100, {OpKind::all_reduce, Bytes{16 * gib}, 64, 8, 8}) ==
        Approx(192).epsilon(0.05));
}

TEST_CASE("medium collectives are near what nccl-tests measured", "[collectives][validation]") {
  struct Row {
    std::int64_t bytes;
    double h100, a100;  // GB/s: DGX H100 (dgxc-benchmarking), 8 x A100 (Azure benchmarking guide)
    double tolerance;   // smaller messages are too fast, see docs/simulator.md
  };
  for (const Row& row : {Row{16 * mib, 239, 109, 0.65}, Row{64 * mib, 362, 167, 0.33},
                         Row{256 * mib, 422, 214, 0.25}, Row{gib, 468, 228, 0.25}}) {
    CAPTURE(row.bytes);
    const CollectiveShape shape{OpKind::all_reduce, Bytes{row.bytes}, 8, 1, 8};
    CHECK(bus_bandwidth(preset("dgx-h100"), shape) == Approx(row.h100).epsilon(row.tolerance));
    CHECK(bus_bandwidth(preset("dgx-a100"), shape) == Approx(row.a100).epsilon(row.tolerance));
  }
}

TEST_CASE("an all_gather over 1,024 ranks has a floor of milliseconds",
          "[collectives][validation]") {
  const Cluster h100 = preset("dgx-h100");
  const Time floor = collective(h100, {OpKind::all_gather, Bytes{1024}, 1024, 128, 8});
  CHECK(floor > 2'000'000);
  CHECK(floor < 4'000'000);
  const Time unit = collective(h100, {OpKind::all_gather, Bytes{400'000'000}, 64, 8, 8});
  CHECK(unit > 1'200'000);
  CHECK(unit < 2'000'000);
}

}  // namespace tessera::sim
