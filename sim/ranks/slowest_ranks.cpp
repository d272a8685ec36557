// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <numeric>

#include "sim/ranks/rank_speeds.h"
#include "tessera/sim/simulate.h"

namespace tessera::sim {

std::vector<Rank> slowest_ranks(const SimulateOptions& options, Rank count) {
  const Cluster& cluster = options.cluster;
  const std::vector<std::int32_t> slowness =
      rank_slowness(cluster.spread, cluster.ranks(), cluster.gpus_per_node, options.seed);
  std::vector<double> factors(static_cast<std::size_t>(cluster.ranks()), 1.0);
  for (std::size_t r = 0; r < slowness.size(); ++r) factors[r] += slowness[r] / double{1 << 20};
  for (const SlowRank& slow : options.slow_ranks) {
    const bool there = slow.rank >= 0 && slow.rank < cluster.ranks();
    if (there) factors[static_cast<std::size_t>(slow.rank)] *= slow.factor;
  }
  std::vector<Rank> ranks(factors.size());
  std::iota(ranks.begin(), ranks.end(), 0);
  const auto slower = [&](Rank a, Rank b) {
    const double left = factors[static_cast<std::size_t>(a)];
    const double right = factors[static_cast<std::size_t>(b)];
    return left != right ? left > right : a < b;
  };
  const auto end = ranks.begin() + std::min<std::ptrdiff_t>(count, std::ssize(ranks));
  std::partial_sort(ranks.begin(), end, ranks.end(), slower);
  ranks.erase(end, ranks.end());
  std::sort(ranks.begin(), ranks.end());
  return ranks;
}

}  // namespace tessera::sim
