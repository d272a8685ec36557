// SPDX-License-Identifier: Apache-2.0
#include "tessera/analysis/metrics.h"

#include <algorithm>
#include <cmath>

#include "tessera/analysis/median.h"
#include "tessera/assert.h"

namespace tessera::analysis {
namespace {

constexpr double deviations = 5;
constexpr double per_median_deviation = 1.4826;  // standard deviations, of a normal distribution
constexpr double least_share = 0.01;             // of the median: closer is noise, whatever it is

std::int64_t value_of(const storage::RankSteps& s, Metric metric, std::size_t i) {
  switch (metric) {
    case Metric::step_time: return s.end[i] - s.begin[i];
    case Metric::compute: return s.compute[i];
    case Metric::exposed: return s.exposed[i];
    case Metric::wait: return s.wait[i];
    case Metric::peak_memory: return s.peak_allocated[i].value;
  }
  return 0;
}

/// The steps in which one rank is odd on one side.
struct Odd {
  std::int32_t first = -1, last = -1;
  double excess = 0;  // sum over them
  int count = 0;

  void add(std::int32_t step, double by) {
    if (first < 0) first = step;
    last = step;
    excess += by;
    ++count;
  }
};

/// Neighbours that are odd in the same steps together.
void add_outliers(const std::vector<Odd>& ranks, std::vector<Outlier>& out) {
  const std::size_t before = out.size();
  for (Rank rank = 0; rank < static_cast<Rank>(ranks.size()); ++rank) {
    const Odd& odd = ranks[static_cast<std::size_t>(rank)];
    if (odd.count == 0) continue;
    const double excess = odd.excess / odd.count;
    const bool joins = out.size() > before && out.back().last_rank == rank - 1 &&
                       out.back().first_step == odd.first && out.back().last_step == odd.last;
    if (!joins) {
      out.push_back({rank, rank, odd.first, odd.last, excess});
      continue;
    }
    out.back().last_rank = rank;
    if (std::abs(excess) > std::abs(out.back().excess)) out.back().excess = excess;
  }
}

}  // namespace

const char* name_of(Metric metric) {
  switch (metric) {
    case Metric::step_time: return "Step time";
    case Metric::compute: return "Compute";
    case Metric::exposed: return "Exposed";
    case Metric::wait: return "Wait";
    case Metric::peak_memory: return "Peak memory";
  }
  return "";
}

MetricTable table_of(const storage::RankSteps& steps, Metric metric) {
  MetricTable table{metric, steps.ranks, steps.steps, {}};
  table.values.reserve(steps.begin.size());
  for (std::size_t i = 0; i < steps.begin.size(); ++i) {
    table.values.push_back(value_of(steps, metric, i));
  }
  return table;
}

Spread spread_of(const MetricTable& table, std::int32_t step) {
  TESSERA_ASSERT(0 <= step && step < table.steps && table.ranks > 0, "a step that is in the table");
  const auto values = table.step(step);
  const auto lowest = std::min_element(values.begin(), values.end());
  const auto highest = std::max_element(values.begin(), values.end());
  return {*lowest, median(std::vector<std::int64_t>(values.begin(), values.end())), *highest,
          static_cast<Rank>(lowest - values.begin()), static_cast<Rank>(highest - values.begin())};
}

Usual usual_of(std::span<const std::int64_t> values) {
  if (values.empty()) return {};
  std::vector<double> numbers(values.begin(), values.end());
  const double middle = median(numbers);
  for (double& number : numbers) number = std::abs(number - middle);
  const double deviation = per_median_deviation * median(std::move(numbers));
  return {middle, std::max({deviations * deviation, least_share * std::abs(middle), 1.0})};
}

MetricScale::MetricScale(std::span<const std::int64_t> values) {
  if (values.empty()) return;
  const Usual usual = usual_of(values);
  low_ = *std::min_element(values.begin(), values.end());
  high_ = *std::max_element(values.begin(), values.end());
  median_ = std::llround(usual.median);
  // The outer quarters are never empty, so that differences show in them, too.
  anchors_ = {std::min(static_cast<double>(low_), usual.median - 2 * usual.reach),
              usual.median - usual.reach, usual.median, usual.median + usual.reach,
              std::max(static_cast<double>(high_), usual.median + 2 * usual.reach)};
}

double MetricScale::at(std::int64_t value) const {
  const auto wanted = static_cast<double>(value);
  if (wanted <= anchors_.front()) return 0;
  for (std::size_t k = 1; k < anchors_.size(); ++k) {
    if (wanted > anchors_[k]) continue;
    const double within = (wanted - anchors_[k - 1]) / (anchors_[k] - anchors_[k - 1]);
    return (static_cast<double>(k - 1) + within) / 4;
  }
  return 1;
}

std::vector<Outlier> outliers(const MetricTable& table) {
  std::vector<Odd> above(static_cast<std::size_t>(table.ranks)), below = above;
  for (std::int32_t step = 0; step < table.steps; ++step) {
    const auto values = table.step(step);
    const Usual usual = usual_of(values);
    if (usual.median <= 0) continue;  // a share of nothing says nothing
    for (std::size_t rank = 0; rank < values.size(); ++rank) {
      const double excess = static_cast<double>(values[rank]) - usual.median;
      if (std::abs(excess) <= usual.reach) continue;
      (excess > 0 ? above : below)[rank].add(step, excess / usual.median);
    }
  }
  std::vector<Outlier> out;
  add_outliers(above, out);
  add_outliers(below, out);
  std::stable_sort(out.begin(), out.end(), [](const Outlier& a, const Outlier& b) {
    return std::abs(a.excess) > std::abs(b.excess);
  });
  return out;
}

MetricFigures figures_of(const storage::RankSteps& steps, Metric metric) {
  MetricFigures figures;
  figures.table = table_of(steps, metric);
  figures.scale = MetricScale(figures.table.values);
  figures.outliers = outliers(figures.table);
  return figures;
}

Metric telling_metric(const storage::RankSteps& steps) {
  for (Metric metric : {Metric::step_time, Metric::compute}) {
    const auto odd = outliers(table_of(steps, metric));
    if (std::any_of(odd.begin(), odd.end(), [](const Outlier& o) { return o.excess > 0; })) {
      return metric;
    }
  }
  return Metric::step_time;
}

}  // namespace tessera::analysis
