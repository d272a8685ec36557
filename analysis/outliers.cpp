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
  template <std::size_t count>
  void shares(std::int32_t step, std::span<const std::int64_t, count> values,
              std::array<double, count>& to) const {
    const double unit = units_[static_cast<std::size_t>(step)];
    const std::int64_t median = table_.range(step).median;
    for (std::size_t k = 0; k < count; ++k) {
      to[k] = unit > 0 ? static_cast<double>(values[k] - median) / unit : 0;
    }
  }

  /// Of a step the value that is furthest off.
  double furthest(std::int32_t step) const {
    const MetricRange& range = table_.range(step);
    return std::max(std::abs(share(step, range.low)), std::abs(share(step, range.high)));
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
  const auto ranks = static_cast<std::size_t>(table.ranks());
  std::vector<double> means(ranks);
  std::vector<std::int64_t> values(ranks);
  for (std::int32_t step = 0; step < table.steps(); ++step) {
    table.copy(step, 0, values);
    for (std::size_t k = 0; k < ranks; ++k) means[k] += distances.share(step, values[k]);
  }
  for (double& mean : means) mean /= table.steps();
  const double middle = median(means);
  for (double& mean : means) mean = std::abs(mean - middle);
  return normal_deviation * median(std::move(means));
}

// Where no value is as far off as an outlier's mean has to be, there is none.
bool all_alike(const Distances& distances, const MetricTable& table) {
  constexpr double rounding = 1e-6;
  for (std::int32_t step = 0; step < table.steps(); ++step) {
    if (distances.furthest(step) > (1 - rounding) * outlier_share) return false;
  }
  return true;
}

struct Stretch {
  std::int32_t begin = 0, end = 0;  // steps [begin, end)
  double deviations = 0;            // signed
};

/// The distances of a few neighbouring ranks, and sums of them from the first step on. Of each step
/// ranks lie beside each other, as in the table, so that loops over them need no branch: nearly all
/// stretches of nearly all ranks are ordinary.
class Neighbours {
 public:
  static constexpr Rank at_once = 16;

  Neighbours(const Distances& distances, const MetricTable& table, double deviation, double clip)
      : distances_(distances),
        table_(table),
        deviation_(deviation),
        clip_(clip * deviation),
        values_(static_cast<std::size_t>(table.steps()) * read_at_once),
        shares_(static_cast<std::size_t>(table.steps())),
        clipped_sums_(shares_.size() + 1) {}

  /// REQUIRES: ranks of the table in turn, `at_once` of them after the other.
  void assign(Rank first) {
    count_ = std::min(at_once, table_.ranks() - first);
    summed_ = false;
    if (first % read_at_once == 0) read(first);
    Row sum{};
    for (std::size_t step = 0; step < shares_.size(); ++step) {
      const auto of_step = static_cast<std::int32_t>(step);
      const std::int64_t* const values =
          &values_[step * read_at_once + static_cast<std::size_t>(first % read_at_once)];
      distances_.shares(of_step, std::span<const std::int64_t, at_once>(values, at_once),
                        shares_[step]);
      // One step beyond all measure must not make a stretch of ordinary ones odd.
      for (std::size_t k = 0; k < sum.size(); ++k) {
        sum[k] += std::min(std::max(shares_[step][k], -clip_), clip_);
      }
      clipped_sums_[step + 1] = sum;
    }
  }

  Rank count() const { return count_; }
  double share(std::int32_t step, Rank k) const {
    return shares_[static_cast<std::size_t>(step)][static_cast<std::size_t>(k)];
  }
  double mean(std::int32_t begin, std::int32_t end, Rank k) {
    sum_up();
    const auto at = static_cast<std::size_t>(k);
    return (sums_[static_cast<std::size_t>(end)][at] - sums_[static_cast<std::size_t>(begin)][at]) /
           (end - begin);
  }
  /// Of each rank the oddest stretches above and below whose means are at least `least` away,
  /// without deviations if none passes `limit`.
  std::array<std::array<Stretch, 2>, at_once> oddest(double limit, double least) {
    const auto steps = static_cast<std::int32_t>(shares_.size());
    std::array<std::array<Stretch, 2>, at_once> best;
    for (std::int32_t length = 1;; length = std::min(steps, 2 * length)) {
      const double usual = deviation_ * std::sqrt(static_cast<double>(length));
      const double least_sum = limit * usual;
      for (std::int32_t begin = 0; begin + length <= steps; begin += std::max(1, length / 2)) {
        const std::int32_t end = begin + length;
        const Row sums = clipped_sum(begin, end);
        if (!reaches(sums, least_sum)) continue;  // nearly all of them
        for (Rank k = 0; k < count_; ++k) {
          const double sum = sums[static_cast<std::size_t>(k)];
          if (std::abs(sum) < least_sum) continue;
          const int side = sum > 0 ? 1 : -1;
          if (mean(begin, end, k) * side < least) continue;
          Stretch& of_side = best[static_cast<std::size_t>(k)][side > 0 ? 0 : 1];
          const double off = sum / usual;
          if (off * side > of_side.deviations * side) of_side = {begin, end, off};
        }
      }
      if (length >= steps) break;
    }
    return best;
  }

 private:
  using Row = std::array<double, at_once>;  // by rank
  // Steps are far from each other in memory: several lines of a cache are fetched of each.
  static constexpr Rank read_at_once = 4 * at_once;

  void read(Rank first) {
    const auto count = static_cast<std::size_t>(std::min(read_at_once, table_.ranks() - first));
    for (std::size_t step = 0; step < shares_.size(); ++step) {
      table_.copy(static_cast<std::int32_t>(step), first,
                  std::span(values_).subspan(step * read_at_once, count));
    }
  }
  Row clipped_sum(std::int32_t begin, std::int32_t end) const {
    const Row& from = clipped_sums_[static_cast<std::size_t>(begin)];
    const Row& to = clipped_sums_[static_cast<std::size_t>(end)];
    Row sums;
    for (std::size_t k = 0; k < sums.size(); ++k) sums[k] = to[k] - from[k];
    return sums;
  }
  static bool reaches(const Row& sums, double least) {
    std::uint64_t some = 0;
    for (const double sum : sums) some |= std::abs(sum) >= least ? 1 : 0;
    return some != 0;
  }
  void sum_up() {
    if (summed_) return;  // of most ranks nobody asks
    summed_ = true;
    sums_.resize(clipped_sums_.size());
    for (std::size_t step = 0; step < shares_.size(); ++step) {
      for (std::size_t k = 0; k < at_once; ++k) {
        sums_[step + 1][k] = sums_[step][k] + shares_[step][k];
      }
    }
  }

  const Distances& distances_;
  const MetricTable& table_;
  const double deviation_, clip_;
  Rank count_ = 0;
  bool summed_ = false;
  std::vector<std::int64_t> values_;               // by step, of `read_at_once` ranks
  std::vector<Row> shares_, sums_, clipped_sums_;  // by step
};

Outlier outlier_of(Neighbours& ranks, const MetricTable& table, Rank rank, Rank k, Stretch stretch,
                   int side) {
  // Stretches are found in powers of two: leave out what is ordinary at their ends.
  const auto ordinary = [&](std::int32_t step) {
    return ranks.share(step, k) * side < outlier_share;
  };
  while (stretch.end - stretch.begin > 1 && ordinary(stretch.begin)) ++stretch.begin;
  while (stretch.end - stretch.begin > 1 && ordinary(stretch.end - 1)) --stretch.end;
  Outlier out{rank, rank, stretch.begin, stretch.end - 1,
              ranks.mean(stretch.begin, stretch.end, k)};
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
  if (all_alike(distances, table)) return {};
  const double limit = limit_of(2 * std::int64_t{table.ranks()} * table.steps());
  const double deviation = std::max(deviation_of(distances, table), outlier_share / limit);
  const double least = std::max(
      outlier_share, at_least ? *at_least : least_of_ranks * between_ranks(distances, table));
  std::vector<Outlier> above, below;
  Neighbours ranks(distances, table, deviation, limit + 1);
  for (Rank first = 0; first < table.ranks(); first += Neighbours::at_once) {
    ranks.assign(first);
    const auto oddest = ranks.oddest(limit, least);
    for (Rank k = 0; k < ranks.count(); ++k) {
      for (const int side : {1, -1}) {
        const Stretch stretch = oddest[static_cast<std::size_t>(k)][side > 0 ? 0 : 1];
        if (stretch.deviations == 0) continue;
        join(side > 0 ? above : below, outlier_of(ranks, table, first + k, k, stretch, side));
      }
    }
  }
  above.insert(above.end(), below.begin(), below.end());
  std::stable_sort(above.begin(), above.end(), [](const Outlier& a, const Outlier& b) {
    return std::abs(a.excess) * a.count > std::abs(b.excess) * b.count;
  });
  return above;
}

}  // namespace tessera::analysis
