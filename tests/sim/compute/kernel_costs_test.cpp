// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>

#include "tessera/sim/cost_model.h"

namespace tessera::sim {
namespace {

// Numbers that are easy to compute with by hand.
Cluster round_cluster() {
  Cluster cluster{.name = "round", .nodes = 4, .gpus_per_node = 4};
  cluster.gpu = {.name = "g",
                 .memory = Bytes{1 << 30},
                 .bf16_flops_per_s = 1e12,
                 .fp32_flops_per_s = 1e11,
                 .matmul_efficiency = 0.5,
                 .attention_efficiency = 0.25,
                 .memory_bytes_per_s = 1e12,
                 .memory_efficiency = 0.5,
                 .kernel_launch_ns = 1000};
  cluster.host = {.bytes_per_s = 20e9, .efficiency = 0.5, .latency_ns = 500};
  return cluster;
}

}  // namespace

TEST_CASE("compute is matmul, attention and memory time plus launches", "[cost]") {
  const auto cost = make_cost_model(round_cluster());
  CHECK(cost->compute({.matmul_flops = 1e6, .kernels = 0}) == 2'000);
  CHECK(cost->compute({.attention_flops = 1e6, .kernels = 0}) == 4'000);
  CHECK(cost->compute({.elementwise_bytes = 1e6, .kernels = 0}) == 2'000);
  CHECK(cost->compute({.kernels = 3}) == 3'000);
  CHECK(cost->compute({1e6, 1e6, 1e6, 2, DType::bfloat16}) == 10'000);
  CHECK(cost->compute({.matmul_flops = 1e6, .kernels = 0, .dtype = DType::float32}) == 20'000);
  CHECK(cost->compute({.matmul_flops = 1e6, .kernels = 0, .dtype = DType::float16}) == 2'000);
}

TEST_CASE("fp8 halves a large matmul, and casting its operand costs the more of a narrow one",
          "[cost]") {
  const Cluster cluster = *load_cluster("dgx-h100", 1);
  REQUIRE(cluster.gpu.fp8_flops_per_s > 0);
  const auto cost = make_cost_model(cluster);
  const auto time = [&](std::int64_t n, bool fp8) {
    return static_cast<double>(cost->compute({.kernels = 0, .matmuls = {{8192, n, 8192, 1, fp8}}}));
  };
  CHECK(time(16384, true) < 0.65 * time(16384, false));
  CHECK(time(512, true) > time(512, false));
  // Without curves the share of the peak and the cast remain.
  Cluster plain = round_cluster();
  plain.gpu.fp8_flops_per_s = 2e12;
  const ComputeCost one{.matmul_flops = 3e6, .kernels = 0, .matmuls = {{100, 100, 100, 1, true}}};
  CHECK(make_cost_model(plain)->compute(one) == 2'000 + 2'000 + 6'000 + 8 * 10'000 / 500);
}

TEST_CASE("a stack that casts weights to fp8 does so in forward, and keeps them", "[cost]") {
  Cluster plain = round_cluster();
  plain.gpu.fp8_flops_per_s = 2e12;
  const auto cost = make_cost_model(plain);
  const auto casting = [&](CastOperands casts) {
    const MatmulShape shape{100, 50, 100, 1, true, casts};
    return cost->compute({.matmul_flops = 1e6, .kernels = 0, .matmuls = {shape}});
  };
  const Time none = casting(CastOperands::none);
  CHECK(casting(CastOperands::first) == none + 6'000 + 8 * 10'000 / 500);
  CHECK(casting(CastOperands::both) == none + 12'000 + 8 * 15'000 / 500);
}

TEST_CASE("a copy reads and writes device memory once, or crosses PCIe", "[cost]") {
  const auto cost = make_cost_model(round_cluster());
  CHECK(cost->copy(Bytes{1'000'000}, CopyRoute::on_device) == 4'000 + 1'000);
  CHECK(cost->copy(Bytes{1'000'000}, CopyRoute::to_host) == 100'000 + 500);
  CHECK(cost->copy(Bytes{1'000'000}, CopyRoute::to_device) == 100'000 + 500);
}

TEST_CASE("past host memory drives may have rates of their own", "[cost]") {
  Cluster cluster = round_cluster();
  cluster.nvme = {.read_bytes_per_s = 1e9, .write_bytes_per_s = 1e9, .latency_ns = 0};
  const auto time = [&](CopyRoute route) {
    return make_cost_model(cluster)->copy(Bytes{1'000'000}, route);
  };
  CHECK(time(CopyRoute::nvme_to_device) == time(CopyRoute::from_nvme));
  CHECK(time(CopyRoute::device_to_nvme) == time(CopyRoute::to_nvme));
  cluster.nvme.direct_read_bytes_per_s = 2e9;
  CHECK(time(CopyRoute::nvme_to_device) == time(CopyRoute::from_nvme) / 2);
  CHECK(time(CopyRoute::device_to_nvme) == time(CopyRoute::to_nvme));
}

TEST_CASE("the kernels of a 405B model do not overflow", "[cost]") {
  const auto cost = make_cost_model(*load_cluster("dgx-h100", 1));
  CHECK(cost->compute({.matmul_flops = 6 * 405e9 * 16e6}) > 0);
}

}  // namespace tessera::sim
