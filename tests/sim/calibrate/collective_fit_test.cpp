// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>

#include "tessera/sim/calibrate.h"
#include "tessera/sim/collective_plan.h"

namespace tessera::sim {
namespace {

std::vector<MeasuredCollective> run_on(const Cluster& cluster, OpKind kind, Index nodes) {
  std::vector<MeasuredCollective> samples;
  for (std::int64_t size = 32 << 10; size <= std::int64_t{16} << 30; size *= 2) {
    const CollectiveShape shape{kind, Bytes{size}, 8 * nodes, nodes, 8};
    samples.push_back({shape, static_cast<double>(plan_collective(cluster, shape).time) / 1e3});
  }
  return samples;
}

}  // namespace

TEST_CASE("a fit finds a cluster that behaves like the measured one", "[calibrate]") {
  const Cluster known = *load_cluster("dgx-h100", 1);
  Cluster measured = known;
  measured.collective_launch_ns = 15'000;
  measured.collective_floor_ns = 35'000;
  measured.nvls.share = 0.98;
  const auto samples = run_on(measured, OpKind::all_reduce, 1);
  const CollectiveFit fit = fit_collectives(known, samples);
  CHECK(fit.error_before > 0.15);
  CHECK(fit.error_after < 0.01);
  CHECK(fit.error_of_others < 0.03);
  CHECK(fit.error_after == mean_error(fit.cluster, samples));
}

TEST_CASE("a fit to several nodes leaves what is inside a node alone", "[calibrate]") {
  const Cluster known = *load_cluster("dgx-h100", 2);
  Cluster measured = known;
  measured.inter_node.launch_ns = 90'000;
  measured.inter_node.sqrt_ns = 15'000;
  const CollectiveFit fit = fit_collectives(known, run_on(measured, OpKind::all_gather, 2));
  CHECK(fit.error_after < 0.02);
  CHECK(fit.cluster.intra_node.efficiency == known.intra_node.efficiency);
  CHECK(fit.cluster.collective_launch_ns == known.collective_launch_ns);
}

// all_reduce on 8 H200 of Azure (ND H200 v5; Azure AI benchmarking guide): bytes and us.
TEST_CASE("half of a published run predicts the other half", "[calibrate][validation]") {
  struct Row {
    std::int64_t kib;
    double us;
  };
  std::vector<MeasuredCollective> samples;
  for (const Row& row :
       {Row{32, 31.17}, Row{64, 30.83}, Row{128, 31.04}, Row{256, 31.1}, Row{512, 31.23},
        Row{1024, 34.65}, Row{2048, 41.34}, Row{8192, 80.69}, Row{16384, 122.13},
        Row{32768, 195.14}, Row{131072, 569.48}, Row{262144, 1086.81}, Row{524288, 2122.16},
        Row{2097152, 7952.46}, Row{8388608, 31318.77}}) {
    samples.push_back({{OpKind::all_reduce, Bytes{row.kib << 10}, 8, 1, 8}, row.us});
  }
  const CollectiveFit fit = fit_collectives(*load_cluster("dgx-h200", 1), samples);
  CHECK(fit.error_after < 0.03);
  CHECK(fit.error_of_others < 0.05);
}

}  // namespace tessera::sim
