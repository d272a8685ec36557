// SPDX-License-Identifier: Apache-2.0
#include "analysis/parted_ranks.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "tessera/analysis/median.h"
#include "tessera/analysis/trace.h"

namespace tessera::analysis {
namespace {

constexpr double of_normal = 1.4826;  // standard deviations, of a normal distribution
constexpr double gap_min = 0.05;      // of the faster part's median: closer is no matter
constexpr double parts_apart = 5;     // deviations of either part in itself
constexpr double gpus_apart = 3;      // in compute, whose deviation is at least the usual one
constexpr double steps_share_min = 0.9;
constexpr std::size_t ranges_shown = 3;

struct RankMean {
  double mean = 0;
  Rank rank = 0;
};

double median_of(const std::vector<RankMean>& ranks, std::size_t begin, std::size_t end) {
  return ranks[begin + (end - begin) / 2].mean;  // they ascend
}

double deviation_of(const std::vector<RankMean>& ranks, std::size_t begin, std::size_t end) {
  const double middle = median_of(ranks, begin, end);
  std::vector<double> distances;
  for (std::size_t i = begin; i < end; ++i) distances.push_back(std::abs(ranks[i].mean - middle));
  return of_normal * median(std::move(distances));
}

/// Whether the slower part's mean is higher in nearly every step.
bool in_steps(const MetricTable& table, const std::vector<RankMean>& ranks, std::size_t split,
              std::int32_t first) {
  std::int32_t higher = 0;
  for (std::int32_t step = first; step < table.steps(); ++step) {
    double fast = 0, slow = 0;
    for (std::size_t i = 0; i < ranks.size(); ++i) {
      const auto value = static_cast<double>(table.at(step, ranks[i].rank));
      (i < split ? fast : slow) += value;
    }
    const auto others = static_cast<double>(split);
    const auto slower = static_cast<double>(ranks.size() - split);
    higher += slow / slower > (1 + gap_min) * fast / others ? 1 : 0;
  }
  return higher >= steps_share_min * (table.steps() - first);
}

/// Means of ranks cannot be further apart than the lowest and the highest of each step are.
bool all_close(const MetricTable& table, std::int32_t first) {
  double apart = 0, low = 0;
  for (std::int32_t step = first; step < table.steps(); ++step) {
    const MetricRange& range = table.range(step);
    apart += static_cast<double>(range.high) - static_cast<double>(range.low);
    low += static_cast<double>(range.low);
  }
  constexpr double rounding = 1e-6;
  return apart < (1 - rounding) * gap_min * low;
}

}  // namespace

std::optional<PartedRanks> parted_ranks(const MetricTable& table) {
  constexpr std::int32_t ranks_min = 4;
  if (table.ranks() < ranks_min || table.steps() < 1) return std::nullopt;
  const std::int32_t first = first_steady(0, table.steps());
  if (all_close(table, first)) return std::nullopt;
  std::vector<RankMean> ranks;
  table.for_each_rank([&](Rank rank, std::span<const std::int64_t> values) {
    double sum = 0;
    for (std::size_t step = static_cast<std::size_t>(first); step < values.size(); ++step) {
      sum += static_cast<double>(values[step]);
    }
    ranks.push_back({sum / (table.steps() - first), rank});
  });
  std::stable_sort(ranks.begin(), ranks.end(),
                   [](const RankMean& a, const RankMean& b) { return a.mean < b.mean; });
  std::size_t split = 0;
  double gap = 0;
  for (std::size_t i = 2; i + 2 <= ranks.size(); ++i) {
    if (ranks[i].mean - ranks[i - 1].mean <= gap) continue;
    gap = ranks[i].mean - ranks[i - 1].mean;
    split = i;
  }
  const double usual = median_of(ranks, 0, split);
  if (split == 0 || usual <= 0 || gap < gap_min * usual) return std::nullopt;
  const double apart =
      std::max(deviation_of(ranks, 0, split), deviation_of(ranks, split, ranks.size()));
  const bool compute = table.metric() == Metric::compute;
  const double least =
      compute ? gpus_apart * std::max(apart, usual_gpu_spread * usual) : parts_apart * apart;
  if (gap < least || !in_steps(table, ranks, split, first)) return std::nullopt;
  PartedRanks out;
  for (std::size_t i = split; i < ranks.size(); ++i) out.slow.push_back(ranks[i].rank);
  std::sort(out.slow.begin(), out.slow.end());
  const double slow = median_of(ranks, split, ranks.size());
  out.excess = slow / usual - 1;
  out.difference = std::llround(slow - usual);
  out.usual = std::llround(usual);
  out.steps = table.steps() - first;
  return out;
}

std::string text_of_ranks(const std::vector<Rank>& ascending, bool begins) {
  std::vector<std::pair<Rank, Rank>> ranges;
  for (const Rank rank : ascending) {
    if (!ranges.empty() && ranges.back().second + 1 == rank) {
      ranges.back().second = rank;
    } else {
      ranges.emplace_back(rank, rank);
    }
  }
  std::string text = begins ? "R" : "r";
  text += ascending.size() == 1 ? "ank " : "anks ";
  const std::size_t shown = std::min(ranges.size(), ranges_shown);
  for (std::size_t i = 0; i < shown; ++i) {
    const bool last = i + 1 == ranges.size();
    text += i == 0 ? "" : last ? " and " : ", ";
    const auto& [from, to] = ranges[i];
    text += from == to ? fmt::format("{}", from) : fmt::format("{} to {}", from, to);
  }
  if (shown < ranges.size()) text += fmt::format(" and others ({} in all)", ascending.size());
  return text;
}

}  // namespace tessera::analysis
