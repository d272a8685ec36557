// SPDX-License-Identifier: Apache-2.0
// The rank x step summary as pictures need it: a metric, a robust colour scale, the odd ones out.
#pragma once

#include <string>
#include <vector>

#include "tessera/storage/trace_reader.h"

namespace tessera::inspector {

enum class Metric : std::uint8_t { step_time, compute, exposed, wait, peak_memory };
inline constexpr int metric_count = 5;

const char* name_of(Metric metric);
/// Entry [step * ranks + rank], in ns or bytes.
std::vector<double> values_of(const storage::RankSteps& steps, Metric metric);
std::string format_metric(Metric metric, double value);

/// From the median (0) to the 99.9th percentile (1), so that noise does not look like structure: a
/// scale is never narrower than 2 % of the median.
struct RobustScale {
  double low = 0;
  double high = 1;
  double at(double value) const { return (value - low) / (high - low); }
};
RobustScale robust_scale(std::vector<double> values);

/// The largest value of the cells that fall on each of `rows` x `columns` pixels, never the mean:
/// one slow rank stays visible among 16,384.
std::vector<double> largest_per_pixel(const std::vector<double>& values, int ranks, int steps,
                                      int rows, int columns);

/// Neighbouring ranks that exceed the median of their step by more than 5 standard deviations (from
/// the median absolute deviation) and 1 %.
struct Outlier {
  Rank first_rank, last_rank;
  std::int32_t first_step, last_step;
  double excess;  // 0.12: 12 % over the median, on average
};
std::vector<Outlier> outliers(const std::vector<double>& values, int ranks, int steps);

/// The metric to show first: step time, unless only another one has outliers (collectives hide a
/// slow rank in the step time of all).
Metric telling_metric(const storage::RankSteps& steps);

}  // namespace tessera::inspector
