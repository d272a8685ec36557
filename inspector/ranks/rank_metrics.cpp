// SPDX-License-Identifier: Apache-2.0
#include "inspector/ranks/rank_metrics.h"

#include <algorithm>
#include <cmath>

#include "inspector/widgets/format.h"

namespace tessera::inspector {
namespace {

double quantile(std::vector<double>& values, double q) {
  const auto k = static_cast<std::ptrdiff_t>(q * static_cast<double>(values.size() - 1));
  std::nth_element(values.begin(), values.begin() + k, values.end());
  return values[static_cast<std::size_t>(k)];
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

std::vector<double> values_of(const storage::RankSteps& s, Metric metric) {
  std::vector<double> values(s.begin.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    switch (metric) {
      case Metric::step_time: values[i] = static_cast<double>(s.end[i] - s.begin[i]); break;
      case Metric::compute: values[i] = static_cast<double>(s.compute[i]); break;
      case Metric::exposed: values[i] = static_cast<double>(s.exposed[i]); break;
      case Metric::wait: values[i] = static_cast<double>(s.wait[i]); break;
      case Metric::peak_memory: values[i] = static_cast<double>(s.peak_allocated[i].value); break;
    }
  }
  return values;
}

std::string format_metric(Metric metric, double value) {
  const auto rounded = static_cast<std::int64_t>(value);
  return metric == Metric::peak_memory ? format_memory(Bytes{rounded}) : format_time(rounded);
}

RobustScale robust_scale(std::vector<double> values) {
  if (values.empty()) return {};
  const double median = quantile(values, 0.5);
  const double high = quantile(values, 0.999);
  return {median, std::max(high, median + std::max(0.02 * std::abs(median), 1.0))};
}

std::vector<double> largest_per_pixel(const std::vector<double>& values, int ranks, int steps,
                                      int rows, int columns) {
  std::vector<double> out(static_cast<std::size_t>(rows) * static_cast<std::size_t>(columns), -1);
  for (int step = 0; step < steps; ++step) {
    const int c0 = step * columns / steps;
    const int c1 = std::max(c0 + 1, (step + 1) * columns / steps);
    for (int rank = 0; rank < ranks; ++rank) {
      const double value = values[static_cast<std::size_t>(step) * static_cast<std::size_t>(ranks) +
                                  static_cast<std::size_t>(rank)];
      const auto r0 = static_cast<int>(std::int64_t{rank} * rows / ranks);
      const auto r1 = std::max(r0 + 1, static_cast<int>((std::int64_t{rank} + 1) * rows / ranks));
      for (int row = r0; row < r1; ++row) {
        for (int column = c0; column < std::min(c1, columns); ++column) {
          double& cell = out[static_cast<std::size_t>(row) * static_cast<std::size_t>(columns) +
                             static_cast<std::size_t>(column)];
          cell = std::max(cell, value);
        }
      }
    }
  }
  return out;
}

std::vector<Outlier> outliers(const std::vector<double>& values, int ranks, int steps) {
  // For every rank the steps in which it stands out, then neighbours with the same steps together.
  struct Odd {
    std::int32_t first = -1, last = -1;
    double excess = 0;
    int count = 0;
  };
  std::vector<Odd> odd(static_cast<std::size_t>(ranks));
  for (int step = 0; step < steps; ++step) {
    const auto row = values.begin() + static_cast<std::ptrdiff_t>(step) * ranks;
    std::vector<double> sorted(row, row + ranks);
    const double median = quantile(sorted, 0.5);
    for (double& value : sorted) value = std::abs(value - median);
    const double deviation = 1.4826 * quantile(sorted, 0.5);
    const double limit = median + std::max(5 * deviation, 0.01 * std::abs(median));
    for (int rank = 0; rank < ranks; ++rank) {
      if (median <= 0 || row[rank] <= limit) continue;
      Odd& o = odd[static_cast<std::size_t>(rank)];
      if (o.first < 0) o.first = step;
      o.last = step;
      o.excess += row[rank] / median - 1;
      ++o.count;
    }
  }
  std::vector<Outlier> out;
  for (Rank rank = 0; rank < ranks; ++rank) {
    const Odd& o = odd[static_cast<std::size_t>(rank)];
    if (o.count == 0) continue;
    const double excess = o.excess / o.count;
    const bool joins = !out.empty() && out.back().last_rank == rank - 1 &&
                       out.back().first_step == o.first && out.back().last_step == o.last;
    if (joins) {
      out.back().last_rank = rank;
      out.back().excess = std::max(out.back().excess, excess);
    } else {
      out.push_back({rank, rank, o.first, o.last, excess});
    }
  }
  std::stable_sort(out.begin(), out.end(),
                   [](const Outlier& a, const Outlier& b) { return a.excess > b.excess; });
  return out;
}

Metric telling_metric(const storage::RankSteps& steps) {
  for (Metric metric : {Metric::step_time, Metric::compute}) {
    if (!outliers(values_of(steps, metric), steps.ranks, steps.steps).empty()) return metric;
  }
  return Metric::step_time;
}

}  // namespace tessera::inspector
