// SPDX-License-Identifier: Apache-2.0
// A library picks among tiles and among ways to split k, and takes the fastest: so does this.
#include "sim/compute/matmul_time.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "sim/time/duration.h"

namespace tessera::sim {
namespace {

struct Tile {
  double rows, columns;
  std::size_t efficiency;  // its place in MatmulCurve::tile_efficiency
  double share;            // of that: the smallest tiles have no place of their own
};

constexpr Tile tiles[] = {{256, 128, 0, 1}, {128, 256, 0, 1}, {128, 128, 1, 1}, {64, 256, 2, 1},
                          {256, 64, 2, 1},  {64, 128, 3, 1},  {128, 64, 3, 1},  {64, 64, 3, 0.7}};
constexpr double largest_tile = 256.0 * 128;
constexpr double splits[] = {1, 2, 4};
constexpr double k_after_split_min = 1024;
constexpr double split_fill = 1.5;  // partial sums are written and added

// A wave that is not full takes its whole time, or as much less as tiles of the next can begin in
// it.
double waves_of(double filled, double whole) {
  return filled <= 1 ? 1 : whole * std::ceil(filled) + (1 - whole) * filled;
}

}  // namespace

double matmul_ns(const MatmulShape& shape, const Gpu& gpu, double peak, double element_bytes) {
  const MatmulCurve& curve = *gpu.matmul;
  const auto m = static_cast<double>(shape.m);
  const auto n = static_cast<double>(shape.n);
  const auto k = static_cast<double>(shape.k);
  const auto count = static_cast<double>(shape.count);
  const auto processors = static_cast<double>(gpu.multiprocessors);
  const double flops_per_ns = peak / processors / ns_per_s;
  double best = std::numeric_limits<double>::max();
  for (const Tile& tile : tiles) {
    const double area = tile.rows * tile.columns;
    const double results = std::ceil(m / tile.rows) * std::ceil(n / tile.columns) * count;
    const double rate = flops_per_ns * curve.tile_efficiency[tile.efficiency] * tile.share;
    for (double split : splits) {
      if (split > 1 && k / split < k_after_split_min) continue;
      const double fill =
          static_cast<double>(curve.fill_ns) * area / largest_tile * (split > 1 ? split_fill : 1);
      const double wave = fill + 2 * area * (k / split) / rate;
      best = std::min(best, waves_of(results * split / processors, curve.whole_waves) * wave);
    }
  }
  const double flops = 2 * m * n * k * count;
  best *= 1 + curve.power_loss * flops / (flops + curve.power_flops);
  const double operands = shape.fp8 ? 1 : element_bytes;
  const double bytes = (operands * (m * k + k * n) + element_bytes * m * n) * count;
  const double memory = bytes / (gpu.memory_bytes_per_s * gpu.memory_efficiency) * ns_per_s;
  return static_cast<double>(curve.start_ns) + std::max(best, memory);
}

}  // namespace tessera::sim
