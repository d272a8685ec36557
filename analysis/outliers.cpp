// SPDX-License-Identifier: Apache-2.0
// Ranks that are odd in one step, for a while or always: one test for all three.
//
// The idea: a value's distance from the median of its step, divided by how far values usually are
// from it, is a number of deviations. A stretch of steps is odd if the mean of those numbers is
// further from 0 than chance lets any of all stretches be (Bonferroni's limit), so a small excess
// counts if it lasts and a large one at once, and noise counts never.
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

#include "tessera/analysis/median.h"
#include "tessera/analysis/metrics.h"

namespace tessera::analysis {
namespace {

constexpr double normal_deviation = 1.4826;  // standard deviations, of a normal distribution
constexpr double outlier_share = 0.01;       // of the median: closer is no matter
constexpr double least_deviations = 5.5;
constexpr double least_of_ranks = 5;  // deviations between ranks: closer is how they are

// The usual spread of GPUs, which a few ranks cannot tell, counts as much as so many ranks.
constexpr double usual_ranks = 32;
// What a few ranks show may be chance, but no more than this of it.
constexpr double shown_least = 0.75;
constexpr int voters_min = 3;  // of two ranks none is the odd one

// The deviations that the largest of `tests` values of pure noise exceeds with a chance of a few
// percent: sqrt(2 ln(tests / chance)), with the logarithm rounded up to whole powers of two, as no
// result may depend on a libm.
double limit_of(std::int64_t tests) {
  constexpr double ln_2 = 0.6931471805599453;
  constexpr int chance_bits = 5;  // 1 / 32
  const int bits =
      static_cast<int>(std::bit_width(static_cast<std::uint64_t>(tests))) + chance_bits;
  return std::max(least_deviations, std::sqrt(2 * ln_2 * bits));
}

// The deviations that one of so many ranks of a normal distribution exceeds in one of 1,000 runs:
// the squares of those points grow by nearly the same with each doubling.
double limit_between(std::int32_t ranks) {
  return std::sqrt(9.55 + 1.31 * std::bit_width(static_cast<std::uint32_t>(ranks - 1)));
}

/// How far each value is from the median of its step, as a share.
class Distances {
 public:
  explicit Distances(const MetricTable& table) : table_(table) {
    for (std::int32_t step = 0; step < table.steps(); ++step) {
      units_.push_back(std::max(static_cast<double>(table.range(step).median), table.unit));
    }
  }

  double share(std::int32_t step, std::int64_t value) const {
    const double unit = units_[static_cast<std::size_t>(step)];
    return unit > 0 ? static_cast<double>(value - table_.range(step).median) / unit : 0;
  }

 private:
  const MetricTable& table_;
  std::vector<double> units_;  // by step
};

// Of many values every n-th: the deviation of a million is as good as that of all.
double deviation_of(const Distances& distances, const MetricTable& table) {
  constexpr std::size_t enough = 1'000'000;
  const std::size_t every = table.size() / enough + 1;
  const auto ranks = static_cast<std::size_t>(table.ranks());
  std::vector<double> sizes;
  for (std::size_t i = 0; i < table.size(); i += every) {
    const auto step = static_cast<std::int32_t>(i / ranks);
    sizes.push_back(std::abs(distances.share(step, table.at(step, static_cast<Rank>(i % ranks)))));
  }
  return normal_deviation * median(std::move(sizes));
}

// How far ranks usually are apart over the whole run: GPUs of one make differ by percents, always
// the same ones, and that is no fault of theirs.
double between_ranks(const Distances& distances, const MetricTable& table) {
  std::vector<double> means;
  table.for_each_rank([&](Rank, std::span<const std::int64_t> values) {
    double sum = 0;
    for (std::size_t step = 0; step < values.size(); ++step) {
      sum += distances.share(static_cast<std::int32_t>(step), values[step]);
    }
    means.push_back(sum / table.steps());
  });
  const double middle = median(means);
  for (double& mean : means) mean = std::abs(mean - middle);
  return normal_deviation * median(std::move(means));
}

struct Stretch {
  std::int32_t begin = 0, end = 0;  // steps [begin, end)
  double deviations = 0;            // signed
};

/// One rank's distances, and sums of them from the first step on. Used for one rank after the
/// other.
class RankSeries {
 public:
  RankSeries(double deviation, double clip) : deviation_(deviation), clip_(clip * deviation) {}

  void assign(const Distances& distances, std::span<const std::int64_t> values) {
    shares_.resize(values.size());
    clipped_sums_.resize(values.size() + 1);
    sums_.clear();
    double sum = 0;
    for (std::size_t step = 0; step < values.size(); ++step) {
      shares_[step] = distances.share(static_cast<std::int32_t>(step), values[step]);
      // One step beyond all measure must not make a stretch of ordinary ones odd.
      clipped_sums_[step + 1] = sum += std::clamp(shares_[step], -clip_, clip_);
    }
  }

  double share(std::int32_t step) const { return shares_[static_cast<std::size_t>(step)]; }
  double mean(std::int32_t begin, std::int32_t end) {
    if (sums_.empty()) {  // of most ranks nobody asks
      sums_.resize(shares_.size() + 1);
      for (std::size_t i = 0; i < shares_.size(); ++i) sums_[i + 1] = sums_[i] + shares_[i];
    }
    return (sums_[static_cast<std::size_t>(end)] - sums_[static_cast<std::size_t>(begin)]) /
           (end - begin);
  }
  /// The oddest stretches above and below whose means are at least `least` away, without
  /// deviations if none passes `limit`.
  std::array<Stretch, 2> oddest(double limit, double least) {
    const auto steps = static_cast<std::int32_t>(shares_.size());
    std::array<Stretch, 2> best;
    for (std::int32_t length = 1;; length = std::min(steps, 2 * length)) {
      const double usual = deviation_ * std::sqrt(static_cast<double>(length));
      const double least_sum = limit * usual;
      for (std::int32_t begin = 0; begin + length <= steps; begin += std::max(1, length / 2)) {
        const std::int32_t end = begin + length;
        const double sum = clipped_sums_[static_cast<std::size_t>(end)] -
                           clipped_sums_[static_cast<std::size_t>(begin)];
        if (std::abs(sum) < least_sum) continue;  // nearly all of them
        const int side = sum > 0 ? 1 : -1;
        if (mean(begin, end) * side < least) continue;
        Stretch& of_side = best[side > 0 ? 0 : 1];
        const double off = sum / usual;
        if (off * side > of_side.deviations * side) of_side = {begin, end, off};
      }
      if (length >= steps) break;
    }
    return best;
  }

 private:
  const double deviation_, clip_;
  std::vector<double> shares_, sums_, clipped_sums_;
};

Outlier outlier_of(RankSeries& series, const MetricTable& table, Rank rank, Stretch stretch,
                   int side) {
  // Stretches are found in powers of two: leave out what is ordinary at their ends.
  const auto ordinary = [&](std::int32_t step) {
    return series.share(step) * side < outlier_share;
  };
  while (stretch.end - stretch.begin > 1 && ordinary(stretch.begin)) ++stretch.begin;
  while (stretch.end - stretch.begin > 1 && ordinary(stretch.end - 1)) --stretch.end;
  Outlier out{rank, rank, stretch.begin, stretch.end - 1, series.mean(stretch.begin, stretch.end)};
  double difference = 0;
  for (std::int32_t step = stretch.begin; step < stretch.end; ++step) {
    out.count += ordinary(step) ? 0 : 1;
    difference += static_cast<double>(table.at(step, rank) - table.range(step).median);
  }
  out.difference = std::llround(difference / (stretch.end - stretch.begin));
  return out;
}

// Neighbours that are odd in the same steps are one entry.
void join(std::vector<Outlier>& out, const Outlier& next) {
  if (!out.empty() && out.back().last_rank == next.first_rank - 1 &&
      out.back().first_step == next.first_step && out.back().last_step == next.last_step) {
    Outlier& last = out.back();
    last.last_rank = next.last_rank;
    last.count = std::max(last.count, next.count);
    if (std::abs(next.excess) > std::abs(last.excess)) {
      last.excess = next.excess;
      last.difference = next.difference;
    }
    return;
  }
  out.push_back(next);
}

}  // namespace

double usual_excess(const MetricTable& table) {
  if (table.ranks() < voters_min || table.steps() < 1) return outlier_share;
  const double seen = between_ranks(Distances(table), table);
  const double known = table.metric() == Metric::compute ? usual_gpu_spread : seen;
  const double weight = usual_ranks / (usual_ranks + table.ranks());
  const double spread = std::sqrt(weight * known * known + (1 - weight) * seen * seen);
  return std::max(outlier_share,
                  limit_between(table.ranks()) * std::max(spread, shown_least * seen));
}

std::vector<Outlier> outliers(const MetricTable& table, std::optional<double> at_least) {
  if (table.ranks() < voters_min || table.steps() < 1) return {};
  const Distances distances(table);
  const double limit = limit_of(2 * std::int64_t{table.ranks()} * table.steps());
  const double deviation = std::max(deviation_of(distances, table), outlier_share / limit);
  const double least =
      std::max(outlier_share, at_least.value_or(least_of_ranks * between_ranks(distances, table)));
  std::vector<Outlier> above, below;
  RankSeries series(deviation, limit + 1);
  table.for_each_rank([&](Rank rank, std::span<const std::int64_t> values) {
    series.assign(distances, values);
    const std::array<Stretch, 2> oddest = series.oddest(limit, least);
    for (const int side : {1, -1}) {
      const Stretch stretch = oddest[side > 0 ? 0 : 1];
      if (stretch.deviations == 0) continue;
      join(side > 0 ? above : below, outlier_of(series, table, rank, stretch, side));
    }
  });
  above.insert(above.end(), below.begin(), below.end());
  std::stable_sort(above.begin(), above.end(), [](const Outlier& a, const Outlier& b) {
    return std::abs(a.excess) * a.count > std::abs(b.excess) * b.count;
  });
  return above;
}

}  // namespace tessera::analysis
