// SPDX-License-Identifier: Apache-2.0
#include "cli/train/peak_flops.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <vector>

#include "cli/train/gpu_peak.h"
#include "training/kernels/matmul.h"
#include "training/kernels/threads.h"

namespace tessera::cli {
namespace {

constexpr std::int64_t size = 512;
constexpr int tries = 8;

struct alignas(64) Line {
  std::byte bytes[64] = {};
};

std::vector<Line> memory(Bytes bytes) {
  return std::vector<Line>(static_cast<std::size_t>(bytes.value) / sizeof(Line) + 1);
}

double measured_peak_flops(DType dtype, int threads) {
  kernels::limit_threads(threads);
  kernels::Matmuls matmuls(1);
  const auto product = matmuls.prepare({.m = size, .n = size, .k = size, .input = dtype});
  if (!product.ok()) return 0;
  const auto a = memory(bytes_of(Numel{size * size}, dtype));
  const auto b = memory(bytes_of(Numel{size * size}, dtype));
  auto c = memory(bytes_of(Numel{size * size}, DType::float32));
  auto scratch = memory(matmuls.scratch());
  double best = 0;
  for (int k = 0; k < tries; ++k) {
    const auto begin = std::chrono::steady_clock::now();
    (*product)->run(a.data(), b.data(), c.data(), nullptr, scratch.data());
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
    best = std::max(best, 2.0 * size * size * size / seconds.count());
  }
  return best;
}

}  // namespace

PeakFlops peak_flops_of(double given, const OpenedRuntime& opened, DType dtype, int threads,
                        bool tf32) {
  if (given > 0) return {given, "as given"};
  if (!opened.device().empty()) {
    const bool rounded = tf32 && dtype == DType::float32;
    return {stated_peak_flops(opened.device(), dtype, tf32),
            fmt::format("{}, {}, dense", opened.device(), rounded ? "tf32" : name_of(dtype))};
  }
  if (opened.name == "simulator") return {};
  return {measured_peak_flops(dtype, threads), fmt::format("{} matmul", name_of(dtype))};
}

}  // namespace tessera::cli
