// SPDX-License-Identifier: Apache-2.0
#include "tessera/analysis/metrics.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "analysis/idle_times.h"
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

// Of `size` values every so many-th is enough.
std::size_t every_of(std::size_t size) { return size / enough_values + 1; }

// Damaged traces may say that parts are longer than the whole.
Time rest_of(Time step, Time compute, Time exposed) {
  const Time whole = std::max<Time>(0, step);
  const Time busy = std::clamp<Time>(compute, 0, whole);
  return whole - busy - std::clamp<Time>(exposed, 0, whole - busy);
}

/// Of the step whose first entry is `first`, by rank.
std::vector<std::int64_t> values_of(const storage::RankSteps& s, Metric metric, std::size_t first) {
  const auto ranks = static_cast<std::size_t>(s.ranks);
  std::vector<std::int64_t> values(ranks, 0);
  const auto fill = [&](auto value_of) {
    for (std::size_t rank = 0; rank < ranks; ++rank) values[rank] = value_of(first + rank);
  };
  switch (metric) {
    case Metric::step_time: fill([&](std::size_t i) { return s.end[i] - s.begin[i]; }); break;
    case Metric::compute: fill([&](std::size_t i) { return s.compute[i]; }); break;
    case Metric::exposed: fill([&](std::size_t i) { return s.exposed[i]; }); break;
    case Metric::wait: fill([&](std::size_t i) { return s.wait[i]; }); break;
    case Metric::peak_memory: fill([&](std::size_t i) { return s.peak_allocated[i].value; }); break;
    case Metric::transfer: fill([&](std::size_t i) { return s.communication[i]; }); break;
    case Metric::other:
      fill([&](std::size_t i) {
        return rest_of(s.end[i] - s.begin[i], s.compute[i], s.exposed[i]);
      });
      break;
    case Metric::cpu:
    case Metric::files:
    case Metric::host: break;  // rows do not tell
  }
  return values;
}

// Appends the ranks of the step whose first entry is `first`.
void add_step(const storage::RankSteps& rows, std::size_t first, MetricTable& table) {
  std::vector<std::int64_t> values = values_of(rows, table.metric(), first);
  const auto is_known = [&](std::size_t rank) {
    return rows.begin[first + rank] < rows.end[first + rank];
  };
  std::size_t count = 0;
  for (std::size_t rank = 0; rank < values.size(); ++rank) count += is_known(rank) ? 1 : 0;
  const bool partly = count > 0 && count < values.size();
  if (partly) {
    std::vector<std::int64_t> known;
    for (std::size_t rank = 0; rank < values.size(); ++rank) {
      if (is_known(rank)) known.push_back(values[rank]);
    }
    const std::int64_t usual = median(std::move(known));
    for (std::size_t rank = 0; rank < values.size(); ++rank) {
      if (!is_known(rank)) values[rank] = usual;
    }
  }
  table.add_step(values);
  for (std::size_t rank = 0; partly && rank < values.size(); ++rank) {
    if (!is_known(rank)) table.set_unknown(static_cast<Rank>(rank));
  }
}

// Parts of a step are measured by the last step, which no first allocation lengthens.
void set_unit(const storage::RankSteps& rows, std::size_t first, MetricTable& table) {
  const bool part = table.metric() == Metric::wait || table.metric() == Metric::exposed ||
                    table.metric() >= Metric::other;
  if (!part) return;
  std::vector<std::int64_t> lengths;
  for (std::size_t i = first; i < first + static_cast<std::size_t>(rows.ranks); ++i) {
    if (rows.end[i] > rows.begin[i]) lengths.push_back(rows.end[i] - rows.begin[i]);
  }
  if (lengths.empty()) lengths.push_back(0);
  table.unit = part_of_step * static_cast<double>(median(std::move(lengths)));
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
    case Metric::other: return "Host, I/O";
    case Metric::cpu: return "CPU";
    case Metric::files: return "Files";
    case Metric::host: return "Host";
  }
  return "";
}

bool known_step(const storage::RankSteps& steps, std::int32_t step, Rank rank) {
  const std::size_t i = static_cast<std::size_t>(step) * static_cast<std::size_t>(steps.ranks) +
                        static_cast<std::size_t>(rank);
  return steps.begin[i] < steps.end[i];
}

bool has_metric(const Trace& trace, Metric metric) {
  if (static_cast<int>(metric) < step_metric_count) return true;
  // Host streams of imported runs are annotations.
  const auto& streams = trace.info().streams;
  return trace.run().backend != "import" && !trace.run().recorded_ranks.empty() &&
         std::any_of(streams.begin(), streams.end(), [](const storage::StreamRow& stream) {
           return stream.role == StreamRole::host;
         });
}

MetricTable table_of(const storage::RankSteps& steps, Metric metric) {
  TESSERA_ASSERT(static_cast<int>(metric) < step_metric_count, "a column of rank_step");
  MetricTable table(metric, steps.ranks);
  for (std::int32_t step = 0; step < steps.steps && steps.ranks > 0; ++step) {
    const auto first = static_cast<std::size_t>(step) * static_cast<std::size_t>(steps.ranks);
    add_step(steps, first, table);
    if (step + 1 == steps.steps) set_unit(steps, first, table);
  }
  return table;
}

Result<MetricTable> table_of(const Trace& trace, Metric metric) {
  TESSERA_ASSIGN(std::vector<MetricTable> tables, tables_of(trace, std::array{metric}));
  return std::move(tables.front());
}

Result<std::vector<MetricTable>> tables_of(const Trace& trace, std::span<const Metric> metrics) {
  std::vector<MetricTable> tables;
  bool of_steps = false;
  for (const Metric metric : metrics) {
    MetricTable& table = tables.emplace_back(metric, trace.rank_count());
    if (static_cast<int>(metric) >= step_metric_count) {
      TESSERA_ASSIGN(table, idle_table(trace, metric));
      if (trace.step_count() > 0) set_unit(trace.last_rows(), 0, table);
      continue;
    }
    of_steps = true;
    table.reserve(trace.step_count());
  }
  if (!of_steps) return tables;
  TESSERA_TRY(trace.for_each_step(
      0, trace.step_count(),
      [&](std::int32_t step, const storage::RankSteps& rows, std::size_t first) {
        for (MetricTable& table : tables) {
          if (static_cast<int>(table.metric()) >= step_metric_count) continue;
          add_step(rows, first, table);
          if (step == trace.last_step()) set_unit(rows, first, table);
        }
      }));
  return tables;
}

Spread spread_of(const MetricTable& table, std::int32_t step) {
  TESSERA_ASSERT(0 <= step && step < table.steps() && table.ranks() > 0,
                 "a step that is in the table");
  const std::vector<std::int64_t> values = table.step(step);
  // Of equals one that is known.
  const auto rank_of = [&](std::int64_t value) {
    const auto next = [&](auto from) { return std::find(from, values.end(), value); };
    const auto first = next(values.begin());
    auto found = first;
    const auto rank = [&](auto at) { return static_cast<Rank>(at - values.begin()); };
    while (found != values.end() && !table.known(step, rank(found))) found = next(found + 1);
    return rank(found == values.end() ? first : found);
  };
  const MetricRange& range = table.range(step);
  return {range.low, range.median, range.high, rank_of(range.low), rank_of(range.high)};
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
  for (std::size_t i = 0; i < values.size(); i += every_of(values.size())) {
    chosen.push_back(values[i]);
  }
  const auto [low, high] = std::minmax_element(values.begin(), values.end());
  *this = MetricScale(chosen, *low, *high);
}

MetricScale::MetricScale(const MetricTable& table) {
  if (table.size() == 0) return;
  const auto ranks = static_cast<std::size_t>(table.ranks());
  std::vector<std::int64_t> chosen;
  for (std::size_t i = 0; i < table.size(); i += every_of(table.size())) {
    chosen.push_back(table.at(static_cast<std::int32_t>(i / ranks), static_cast<Rank>(i % ranks)));
  }
  MetricRange all = table.range(0);
  for (std::int32_t step = 1; step < table.steps(); ++step) {
    all.low = std::min(all.low, table.range(step).low);
    all.high = std::max(all.high, table.range(step).high);
  }
  *this = MetricScale(chosen, all.low, all.high);
}

MetricScale::MetricScale(std::span<const std::int64_t> chosen, std::int64_t low, std::int64_t high)
    : low_(low), high_(high) {
  const Usual usual = usual_of(chosen);
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

MetricFigures figures_of(MetricTable table) {
  MetricFigures figures;
  figures.scale = MetricScale(table);
  for (std::int32_t step = 0; step < table.steps() && table.ranks() > 0; ++step) {
    figures.spreads.push_back(spread_of(table, step));
  }
  figures.table = std::move(table);
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
