// SPDX-License-Identifier: Apache-2.0
#include "sim/compute/matmul_time.h"

#include <catch2/catch.hpp>

#include "sim/compute/attention_time.h"
#include "tessera/sim/cluster.h"

namespace tessera::sim {
namespace {

// Four multiprocessors of 1 FLOP/ns for every element of the largest tile: easy to count.
Gpu small_gpu() {
  Gpu gpu{.name = "small", .memory_bytes_per_s = 1e18, .multiprocessors = 4};
  gpu.matmul = MatmulCurve{.tile_efficiency = {1, 0.01, 0.01, 0.01}};
  return gpu;
}

constexpr double peak = 4 * 2 * 256 * 128 * 1e9;  // a wave of k = 1 takes 1 ns

double us(const std::string& cluster, std::int64_t m, std::int64_t n, std::int64_t k) {
  const Gpu gpu = load_cluster(cluster, 1)->gpu;
  return matmul_ns({m, n, k}, gpu, gpu.bf16_flops_per_s, 2) / 1000;
}

}  // namespace

TEST_CASE("tiles run in waves: one more than fits takes a wave more", "[cost]") {
  const Gpu gpu = small_gpu();
  CHECK(matmul_ns({4 * 256, 128, 100}, gpu, peak, 2) == Approx(100));
  CHECK(matmul_ns({5 * 256, 128, 100}, gpu, peak, 2) == Approx(200));
  CHECK(matmul_ns({8 * 256, 128, 100}, gpu, peak, 2) == Approx(200));
  CHECK(matmul_ns({1, 1, 100}, gpu, peak, 2) == Approx(100));
  Gpu shared = gpu;
  shared.matmul->whole_waves = 0;
  CHECK(matmul_ns({5 * 256, 128, 100}, shared, peak, 2) == Approx(125));
}

TEST_CASE("few tiles with a long sum are split along it", "[cost]") {
  Gpu gpu = small_gpu();
  CHECK(matmul_ns({256, 128, 4096}, gpu, peak, 2) == Approx(1024));
  gpu.matmul->fill_ns = 10'000;  // each part has to be filled and added
  CHECK(matmul_ns({256, 128, 4096}, gpu, peak, 2) == Approx(14'096));
}

TEST_CASE("a matmul takes at least the time to read and write its matrices", "[cost]") {
  Gpu gpu = small_gpu();
  gpu.memory_bytes_per_s = 1e9;
  CHECK(matmul_ns({256, 128, 1}, gpu, peak, 2) == Approx(2 * (256 + 128 + 256 * 128)));
}

TEST_CASE("the shipped curves agree with measured matmuls", "[cost]") {
  // Of the benchmarks that docs/simulator.md names: microseconds.
  CHECK(us("dgx-h100", 1024, 4096, 8192) == Approx(77.5).epsilon(0.12));
  CHECK(us("dgx-h100", 4096, 4096, 4096) == Approx(166.0).epsilon(0.12));
  CHECK(us("dgx-h100", 8192, 8192, 8192) == Approx(1541.7).epsilon(0.12));
  CHECK(us("dgx-a100", 2048, 5120, 4096) == Approx(307.7).epsilon(0.12));
  CHECK(us("dgx-a100", 8192, 8192, 4096) == Approx(2199.0).epsilon(0.12));
  // One tile more than fills a wave or two: where a curve's shares of tiles tell.
  for (const char* a100 : {"dgx-a100", "a100-40gb", "nd-a100-v4", "p4de.24xlarge"}) {
    INFO(a100);
    CHECK(us(a100, 2048, 4096, 4096) == Approx(305.2).epsilon(0.12));
    CHECK(us(a100, 4096, 1024, 8192) == Approx(319.3).epsilon(0.12));
    CHECK(us(a100, 8192, 1024, 4096) == Approx(322.1).epsilon(0.12));
  }
}

TEST_CASE("causal attention skips half of the squares, and its first rows cannot be shared",
          "[cost]") {
  const Gpu gpu = small_gpu();
  const AttentionCurve curve{.name = "test"};
  const double square = 4.0 * 128 * 128 * 128;  // FLOPs of 128 queries and keys of a head of 128
  const double rate = peak / 1e9 / 4;
  CHECK(fused_attention_ns({1, 128, 4, 4, 128, false}, gpu, curve, peak) == Approx(square / rate));
  CHECK(fused_attention_ns({1, 512, 16, 16, 128, false}, gpu, curve, peak) ==
        Approx(16 * 10 * square / rate / 4));
  CHECK(fused_attention_ns({1, 512, 1, 1, 128, false}, gpu, curve, peak) ==
        Approx(4 * square / rate));
  CHECK(fused_attention_ns({1, 512, 16, 16, 128, true}, gpu, curve, peak) ==
        Approx(2.5 * 16 * 10 * square / rate / 4));
}

TEST_CASE("unfused attention passes over its scores", "[cost]") {
  Gpu gpu = small_gpu();
  gpu.memory_bytes_per_s = 1e9;
  const AttentionShape shape{2, 256, 3, 3, 64, false};
  const double none = unfused_attention_ns(shape, gpu, peak, 0, 2);
  const double ten = unfused_attention_ns(shape, gpu, peak, 10, 2);
  CHECK(ten - none == Approx(10.0 * 2 * 2 * 3 * 256 * 256));
}

}  // namespace tessera::sim
