// SPDX-License-Identifier: Apache-2.0
#include "sim/ranks/rank_speeds.h"

#include <algorithm>
#include <cmath>

#include "engine/tracing/clock_kernels.h"

namespace tessera::sim {
namespace {

constexpr double one = 1 << slowness_bits;

// Nearly normal, mean 0 and deviation 1, of integers and one square root: the sum of 12 uniform
// numbers has variance 1.
double normal(std::uint32_t key) {
  double sum = -6;
  for (std::uint32_t k = 0; k < 12; ++k) {
    sum += static_cast<double>(hash32(key + 0x9E3779B9U * (k + 1))) / 4294967296.0;
  }
  return sum;
}

}  // namespace

std::vector<std::int32_t> rank_slowness(const Spread& spread, Rank ranks, Index ranks_per_node,
                                        std::uint64_t seed) {
  if (!(spread.gpu > 0) && !(spread.node > 0)) return {};
  const std::uint32_t key = hash32(static_cast<std::uint32_t>(seed) ^
                                   hash32(static_cast<std::uint32_t>(seed >> 32) ^ 0x5BD1E995U));
  std::vector<std::int32_t> out;
  for (Rank r = 0; r < ranks; ++r) {
    const auto own = static_cast<std::uint32_t>(r);
    const auto node = static_cast<std::uint32_t>(r / ranks_per_node) ^ 0x80000000U;
    const double share =
        spread.gpu * normal(hash32(own ^ key)) + spread.node * normal(hash32(node ^ key));
    out.push_back(static_cast<std::int32_t>(std::lround(std::clamp(share, -0.5, 1.0) * one)));
  }
  return out;
}

std::vector<double> group_slowness(std::span<const SlowLink> slow_links, const RankGroups& groups,
                                   Index ranks_per_node) {
  std::vector<double> slowness;
  if (slow_links.empty()) return slowness;
  for (Index g = 0; g < groups.group_count(); ++g) {
    double factor = 1;
    for (const SlowLink& link : slow_links) {
      bool touched = false;
      for (Index i = 0; i < groups.group_size(g) && !touched; ++i) {
        touched = groups.member(g, i) / ranks_per_node == link.node;
      }
      if (touched) factor *= link.factor;
    }
    slowness.push_back(factor);
  }
  return slowness;
}

}  // namespace tessera::sim
