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
constexpr std::size_t enough_values = 1'000'000;
constexpr double least_share = 0.01;  // of the median: closer is noise, whatever it is
// Parts of a step matter by what they are of the step: 1 % of this share, two per mille of a step.
constexpr double part_of_step = 0.2;

std::int64_t value_of(const storage::RankSteps& s, Metric metric, std::size_t i) {
  switch (metric) {
    case Metric::step_time: return s.end[i] - s.begin[i];
    case Metric::compute: return s.compute[i];
    case Metric::exposed: return s.exposed[i];
    case Metric::wait: return s.wait[i];
    case Metric::peak_memory: return s.peak_allocated[i].value;
    case Metric::transfer: return s.communication[i];
  }
  return 0;
}

void fill_unknown(const storage::RankSteps& steps, MetricTable& table) {
  for (std::int32_t step = 0; step < steps.steps; ++step) {
    std::vector<std::int64_t> known;
    for (Rank rank = 0; rank < steps.ranks; ++rank) {
      if (known_step(steps, step, rank)) known.push_back(table.at(step, rank));
    }
    const auto ranks = static_cast<std::size_t>(steps.ranks);
    if (known.size() == ranks || known.empty()) continue;
    table.unknown.resize(table.values.size());
    const std::int64_t usual = median(std::move(known));
    for (Rank rank = 0; rank < steps.ranks; ++rank) {
      if (known_step(steps, step, rank)) continue;
      const std::size_t i = static_cast<std::size_t>(step) * ranks + static_cast<std::size_t>(rank);
      table.values[i] = usual;
      table.unknown[i] = true;
    }
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
    case Metric::transfer: return "Transfer";
  }
  return "";
}

bool known_step(const storage::RankSteps& steps, std::int32_t step, Rank rank) {
  const std::size_t i = static_cast<std::size_t>(step) * static_cast<std::size_t>(steps.ranks) +
                        static_cast<std::size_t>(rank);
  return steps.begin[i] < steps.end[i];
}

MetricTable table_of(const storage::RankSteps& steps, Metric metric) {
  MetricTable table{metric, steps.ranks, steps.steps, {}};
  table.values.reserve(steps.begin.size());
  for (std::size_t i = 0; i < steps.begin.size(); ++i) {
    table.values.push_back(value_of(steps, metric, i));
  }
  fill_unknown(steps, table);
  const bool part = metric == Metric::wait || metric == Metric::exposed;
  if (part && steps.steps > 0 && steps.ranks > 0) {
    // Of the last step, which no first allocation lengthens.
    const auto first =
        static_cast<std::size_t>(steps.steps - 1) * static_cast<std::size_t>(steps.ranks);
    std::vector<std::int64_t> lengths;
    for (std::size_t i = first; i < steps.begin.size(); ++i) {
      if (steps.end[i] > steps.begin[i]) lengths.push_back(steps.end[i] - steps.begin[i]);
    }
    if (lengths.empty()) lengths.push_back(0);
    table.unit = part_of_step * static_cast<double>(median(std::move(lengths)));
  }
  return table;
}

Spread spread_of(const MetricTable& table, std::int32_t step) {
  TESSERA_ASSERT(0 <= step && step < table.steps && table.ranks > 0, "a step that is in the table");
  const auto values = table.step(step);
  const auto lowest = std::min_element(values.begin(), values.end());
  const auto highest = std::max_element(values.begin(), values.end());
  // Of equals one that is known.
  const auto rank_of = [&](std::int64_t value, std::ptrdiff_t first) {
    for (auto r = static_cast<std::size_t>(first); r < values.size(); ++r) {
      if (values[r] == value && table.known(step, static_cast<Rank>(r)))
        return static_cast<Rank>(r);
    }
    return static_cast<Rank>(first);
  };
  return {*lowest, median(std::vector<std::int64_t>(values.begin(), values.end())), *highest,
          rank_of(*lowest, lowest - values.begin()), rank_of(*highest, highest - values.begin())};
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
  std::vector<std::int64_t> chosen;
  const std::size_t every = values.size() / enough_values + 1;
  for (std::size_t i = 0; i < values.size(); i += every) chosen.push_back(values[i]);
  const Usual usual = usual_of(chosen);
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

MetricFigures figures_of(const storage::RankSteps& steps, Metric metric) {
  MetricFigures figures;
  figures.table = table_of(steps, metric);
  figures.scale = MetricScale(figures.table.values);
  return figures;
}

Metric telling_metric(const std::function<const std::vector<Outlier>&(Metric)>& outliers_of) {
  for (Metric metric : {Metric::step_time, Metric::compute}) {
    const auto& odd = outliers_of(metric);
    if (std::any_of(odd.begin(), odd.end(), [](const Outlier& o) { return o.excess > 0; })) {
      return metric;
    }
  }
  return Metric::step_time;
}

}  // namespace tessera::analysis
