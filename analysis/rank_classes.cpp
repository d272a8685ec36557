// SPDX-License-Identifier: Apache-2.0
#include "tessera/analysis/rank_classes.h"

#include <algorithm>
#include <map>

namespace tessera::analysis {
namespace {

using Sides = std::array<std::int8_t, step_metric_count>;

struct Words {
  const char *above, *below;
};
// In the order of Metric.
constexpr Words words[step_metric_count] = {
    {"longer steps", "shorter steps"},          {"computes longer", "computes less"},
    {"more exposed", "less exposed"},           {"waits longer", "waits less"},
    {"holds more memory", "holds less memory"}, {"communicates longer", "communicates less"},
    {"more host or I/O", "less host or I/O"}};

}  // namespace

std::vector<RankClass> rank_classes(
    std::int32_t ranks, const std::function<const std::vector<Outlier>&(Metric)>& outliers_of) {
  std::map<Rank, Sides> odd;  // few, of however many ranks
  for (int m = 0; m < step_metric_count; ++m) {
    for (const Outlier& outlier : outliers_of(static_cast<Metric>(m))) {
      for (Rank rank = std::max(0, outlier.first_rank);
           rank <= std::min(outlier.last_rank, ranks - 1); ++rank) {
        std::int8_t& side = odd[rank][static_cast<std::size_t>(m)];
        if (side == 0) side = outlier.excess > 0 ? 1 : -1;
      }
    }
  }
  std::map<Sides, RankClass> classes;
  const auto add = [&](const Sides& sides, Rank first, Rank last) {
    if (first > last) return;
    RankClass& of = classes[sides];
    of.side = sides;
    of.count += last - first + 1;
    const bool goes_on = !of.ranges.empty() && of.ranges.back().second == first - 1;
    if (goes_on) of.ranges.back().second = last;
    if (!goes_on) of.ranges.emplace_back(first, last);
  };
  Rank next = 0;
  for (const auto& [rank, sides] : odd) {
    add({}, next, rank - 1);
    add(sides, rank, rank);
    next = rank + 1;
  }
  add({}, next, ranks - 1);
  std::vector<RankClass> sorted;
  for (auto& [sides, of] : classes) sorted.push_back(std::move(of));
  std::sort(sorted.begin(), sorted.end(), [](const RankClass& a, const RankClass& b) {
    return a.count != b.count ? a.count > b.count : a.ranges.front() < b.ranges.front();
  });
  return sorted;
}

std::string words_of(const RankClass& ranks) {
  std::string all;
  for (std::size_t m = 0; m < ranks.side.size(); ++m) {
    if (ranks.side[m] == 0) continue;
    if (!all.empty()) all += ", ";
    all += ranks.side[m] > 0 ? words[m].above : words[m].below;
  }
  return all;
}

}  // namespace tessera::analysis
