// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>

#include "sim/compute/attention_time.h"
#include "sim/compute/matmul_time.h"
#include "tessera/sim/calibrate.h"
#include "tessera/sim/collective_plan.h"

namespace tessera::sim {
namespace {

std::vector<MeasuredKernel> run_on(const Gpu& gpu, const AttentionCurve& curve) {
  std::vector<MeasuredKernel> out;
  const double peak = gpu.bf16_flops_per_s;
  for (std::int64_t m = 1024; m <= 16384; m *= 2) {
    for (std::int64_t n = 512; n <= 8192; n *= 4) {
      MeasuredKernel kernel{.matmul = {m, n, 4096}, .attention = {}};
      kernel.us = matmul_ns(kernel.matmul, gpu, peak, 2) / 1e3;
      out.push_back(kernel);
    }
    for (const bool backward : {false, true}) {
      MeasuredKernel kernel{.matmul = {}, .attention = {2, m, 16, 16, 128, backward}};
      kernel.us = fused_attention_ns(kernel.attention, gpu, curve, peak) / 1e3;
      out.push_back(kernel);
    }
  }
  return out;
}

}  // namespace

TEST_CASE("a sweep of kernels gives the curves of the GPU that ran it", "[calibrate]") {
  const Gpu known = load_cluster("dgx-h100", 1)->gpu;
  Gpu measured = known;
  measured.matmul->tile_efficiency = {0.5, 0.5, 0.45, 0.4};
  measured.matmul->start_ns = 9'000;
  AttentionCurve curve = *measured.find_attention("flash2");
  curve.forward = 0.55;
  curve.backward = 0.7;
  const KernelFit fit = fit_kernels(known, "flash2", run_on(measured, curve));
  CHECK(fit.matmul_median < 0.02);
  CHECK(fit.matmul_p90 < 0.05);
  CHECK(fit.attention_median < 0.02);
  CHECK(fit.gpu.find_attention("flash2")->forward == Approx(0.55).epsilon(0.05));
  CHECK(fit.gpu.find_attention("flash1")->forward == known.find_attention("flash1")->forward);
}

TEST_CASE("a GPU without curves gets some", "[calibrate]") {
  const Gpu h100 = load_cluster("dgx-h100", 1)->gpu;
  Gpu bare = h100;
  bare.matmul.reset();
  bare.attention.clear();
  const KernelFit fit = fit_kernels(bare, "mine", run_on(h100, *h100.find_attention("flash2")));
  REQUIRE(fit.gpu.matmul.has_value());
  CHECK(fit.matmul_median < 0.1);
  CHECK(fit.gpu.find_attention("mine") != nullptr);
}

TEST_CASE("parts of runs of two sizes have a start and a factor", "[calibrate]") {
  const auto at = [](double expected) {
    return MeasuredPart{"mlp", Phase::forward, 500 + 1.5 * expected, expected};
  };
  const auto two = fit_parts({at(1'000), at(8'000)});
  REQUIRE(two.size() == 1);
  CHECK(two[0].part == "mlp");
  CHECK(two[0].phase == Phase::forward);
  CHECK(two[0].start_ns == 500);
  CHECK(two[0].factor == Approx(1.5));
  const auto one = fit_parts({at(1'000)});
  CHECK(one[0].start_ns == 0);
  CHECK(one[0].factor == Approx(2));
  const auto free = fit_parts({{"step", Phase::optimizer, 700, 0}});
  CHECK(free[0].start_ns == 700);
}

TEST_CASE("what was measured of a collective counts for such groups alone", "[calibrate]") {
  Cluster cluster = *load_cluster("dgx-h100", 2);
  CollectiveShape shape{OpKind::all_reduce, Bytes{4 << 20}, 8, 1, 8};
  const auto time = [&] { return static_cast<double>(plan_collective(cluster, shape).time); };
  const double before = time();
  cluster.measured = {
      {OpKind::all_reduce, 8, 1, {Bytes{1 << 20}, Bytes{4 << 20}, Bytes{16 << 20}}, {1, 2, 4}}};
  CHECK(time() == Approx(2 * before).epsilon(1e-4));
  CHECK(cluster.measured[0].at(Bytes{9 << 20}) == Approx(3));
  CHECK(cluster.measured[0].at(Bytes{1}) == 1);
  CHECK(cluster.measured[0].at(Bytes{64 << 20}) == 4);
  // What 4 bytes took says nothing of a megabyte, and little of 128 KiB.
  const MeasuredFactors tiny{OpKind::all_reduce, 8, 1, {Bytes{4}, Bytes{64 << 10}}, {5, 3}};
  CHECK(tiny.at(Bytes{2}) == 5);
  CHECK(tiny.at(Bytes{128 << 10}) == Approx(3 - 2.0 / 15));
  CHECK(tiny.at(Bytes{1 << 20}) == 1);
  shape.kind = OpKind::all_gather;
  CHECK(cluster.measured[0].kind != shape.kind);
  shape = {OpKind::all_reduce, Bytes{4 << 20}, 16, 2, 8};
  const double apart = time();
  cluster.measured.clear();
  CHECK(time() == apart);
}

}  // namespace tessera::sim
