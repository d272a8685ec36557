// SPDX-License-Identifier: Apache-2.0
// One number per rank and step: its spread over the ranks, a scale that one outlier does not ruin,
// and the ranks that stand out.
//
// The idea: ranks of one run should do alike, so the median is what is usual, and the median
// deviation from it says how far ranks may be apart before one of them is odd. Where a colour or a
// list says "odd", it says so by the same limit.
//
//   const MetricFigures wait = figures_of(table_of(steps, Metric::wait));
//   draw(colour(wait.scale.at(wait.table.at(step, rank))));
//   label(colour(wait.scale.at(wait.scale.high())), wait.scale.high());
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "tessera/analysis/metric_table.h"
#include "tessera/analysis/trace.h"

namespace tessera::analysis {

/// "Step time", ..., for titles.
const char* name_of(Metric metric);

/// Whether anything is known of `rank` in `step`: no step takes no time.
bool known_step(const storage::RankSteps& steps, std::int32_t step, Rank rank);

/// Whether the trace can tell the metric: parts of `Metric::other` where something runs on streams
/// of the host that does more than say what others do.
bool has_metric(const Trace& trace, Metric metric);

/// REQUIRES: a metric of all ranks.
MetricTable table_of(const storage::RankSteps& steps, Metric metric);
/// Reads a few steps at a time, so that it needs no more memory than the table takes. Fails: as
/// `Trace::step_rows`, and the reader's lanes.
Result<MetricTable> table_of(const Trace& trace, Metric metric);
/// Those of several metrics, in their order: steps are read once for all of them.
Result<std::vector<MetricTable>> tables_of(const Trace& trace, std::span<const Metric> metrics);

/// One step over its ranks.
struct Spread {
  std::int64_t low = 0, median = 0, high = 0;
  Rank lowest = 0, highest = 0;  // who has them, the first of equals
};

/// REQUIRES: the table has that step and a rank.
Spread spread_of(const MetricTable& table, std::int32_t step);

/// The usual range: values further from the median than `reach` are odd.
struct Usual {
  double median = 0;
  double reach = 1;  // 5 standard deviations (from the median deviation), at least 1 % and 1
};

Usual usual_of(std::span<const std::int64_t> values);

/// From 0 over 1/2 (the median) to 1. What is usual lies within 1/4 of the middle, however far the
/// extremes are, so one outlier neither hides the others' differences nor looks like the runner-up;
/// and if nothing is odd, nothing comes near the ends.
class MetricScale {
 public:
  MetricScale() = default;
  /// The median and the deviation of more than a million values are those of an even choice.
  explicit MetricScale(std::span<const std::int64_t> values);
  explicit MetricScale(const MetricTable& table);

  /// The place of `value`, 0 to 1; it ascends with the value.
  double at(std::int64_t value) const;
  /// The values that a legend names: the lowest and the highest are those that occur.
  std::int64_t low() const { return low_; }
  std::int64_t median() const { return median_; }
  std::int64_t high() const { return high_; }

 private:
  MetricScale(std::span<const std::int64_t> chosen, std::int64_t low, std::int64_t high);

  std::array<double, 5> anchors_ = {0, 1, 2, 3, 4};  // ascending values at 0, 1/4, ... 1
  std::int64_t low_ = 0, median_ = 0, high_ = 0;
};

/// Neighbouring ranks that are odd in the same stretch of steps, all above or all below the median.
struct Outlier {
  Rank first_rank, last_rank;
  std::int32_t first_step, last_step;
  double excess;  // 0.12: 12 % over the median (or `MetricTable::unit`) on average; negative: under
  std::int32_t count = 0;  // steps of the stretch in which the rank is over 1 % off on that side
  std::int64_t difference = 0;  // from the median, ns or bytes, mean over the stretch
};

/// Those that cost most (|excess| times steps) first. A stretch of 1, 2, 4, ... or all steps is odd
/// if its mean distance from the median of each step is over 1 % and further off, in deviations,
/// than one of all stretches of a run of mere noise is by a chance of 3 % (at least 5.5; deviations
/// are found from medians, so outliers do not widen them). A rank that waits least in collectives,
/// or is exposed least, is the one that the others wait for: so both sides count. Where ranks
/// always differ, as GPUs of one make do, an odd one is 5 deviations of that away as well, or
/// `at_least` (0.1: 10 %). Of one or two ranks none is odd.
std::vector<Outlier> outliers(const MetricTable& table, std::optional<double> at_least = {});

/// GPUs of one make compute by so much faster or slower for good (standard deviation).
inline constexpr double usual_gpu_spread = 0.022;

/// How far above the median a rank may be for good before that is a fault, and not how GPUs of one
/// make differ: further than one of so many ranks is in one of 1,000 runs. A few ranks say little
/// of how far they differ; in compute it then counts that GPUs usually do by 2 %.
double usual_excess(const MetricTable& table);

/// All of one metric.
struct MetricFigures {
  MetricTable table;
  MetricScale scale;            // of all ranks and steps
  std::vector<Spread> spreads;  // by step
};

MetricFigures figures_of(MetricTable table);

/// The metric to show first: step time, unless only compute has ranks that take too long
/// (collectives hide a slow rank in the step time of all). `outliers_of` tells those of a metric; a
/// caller may remember them.
Metric telling_metric(const std::function<const std::vector<Outlier>&(Metric)>& outliers_of);

}  // namespace tessera::analysis
