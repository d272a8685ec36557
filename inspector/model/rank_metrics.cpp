// SPDX-License-Identifier: Apache-2.0
#include "inspector/model/rank_metrics.h"

#include <algorithm>
#include <chrono>
#include <cstddef>

namespace tessera::inspector {

using analysis::Metric;
using analysis::MetricFigures;
using analysis::MetricTable;
using analysis::Outlier;

namespace {

constexpr std::size_t large_table = 4'000'000;  // entries of 4 bytes
constexpr std::size_t large_tables_kept = 2;
constexpr int large_tables_made = 4;

}  // namespace

const MetricFigures* RankMetrics::figures(Metric metric) {
  take();
  known(metric).used = ++clock_;
  if (known(metric).figures == nullptr && !known(metric).failed) look({metric}, false);
  return known(metric).figures.get();
}

const std::vector<Outlier>* RankMetrics::outliers(Metric metric) {
  take();
  if (!known(metric).outliers && !known(metric).failed) look({metric}, true);
  return known(metric).outliers ? &*known(metric).outliers : nullptr;
}

std::optional<Result<analysis::ShownFindings>> RankMetrics::shown_findings() {
  using Shown = Result<analysis::ShownFindings>;
  take();
  const auto unknown = [this] {
    std::vector<Metric> metrics;
    for (const Metric metric : analysis::finding_metrics) {
      if (!known(metric).outliers) metrics.push_back(metric);
    }
    return metrics;
  };
  const bool nothing = trace_.step_count() == 0 || trace_.rank_count() == 0;
  if (nothing) return Shown(analysis::ShownFindings());
  const auto failed = [this](Metric metric) { return known(metric).failed; };
  if (const auto sought = unknown(); !sought.empty()) {
    if (std::none_of(sought.begin(), sought.end(), failed)) look(sought, true);
    if (std::any_of(sought.begin(), sought.end(), failed)) return Shown(failure_);
    if (!unknown().empty()) return {};
  }
  analysis::ShownFindings shown;
  for (std::size_t k = 0; k < shown.size(); ++k) {
    shown[k] = known(analysis::finding_metrics[k]).findings;
  }
  return Shown(std::move(shown));
}

std::optional<Metric> RankMetrics::telling() {
  bool whole = true;
  static const std::vector<Outlier> none;
  const Metric telling = analysis::telling_metric([&](Metric metric) -> const auto& {
    const std::vector<Outlier>* const found = outliers(metric);
    whole &= found != nullptr || known(metric).failed;
    return found == nullptr ? none : *found;
  });
  if (!whole) return {};
  return telling;
}

const MetricFigures* RankMetrics::step(Metric metric, std::int32_t step) {
  const bool at_hand = trace_.holds_steps() || known(metric).figures != nullptr;
  const MetricFigures* const all = at_hand ? figures(metric) : nullptr;
  const bool same = step_ == step && of_step_.table.metric() == metric;
  if (same && step_scaled_ == (all != nullptr)) return &of_step_;
  const auto table = table_of_step(metric, step, all);
  if (!table.ok()) {
    fail(table.status());
    return nullptr;
  }
  if (!*table) return nullptr;
  of_step_ = analysis::figures_of(**table);
  if (all != nullptr) of_step_.scale = all->scale;
  step_ = step;
  step_scaled_ = all != nullptr;
  return &of_step_;
}

// From what is known of all steps, or else from the trace; none: it takes all spans.
Result<std::optional<analysis::MetricTable>> RankMetrics::table_of_step(
    Metric metric, std::int32_t step, const MetricFigures* all) const {
  if (all != nullptr) {
    analysis::MetricTable table(metric, all->table.ranks());
    table.unit = all->table.unit;
    table.add_step(all->table.step(step));
    for (Rank rank = 0; rank < table.ranks(); ++rank) {
      if (!all->table.known(step, rank)) table.set_unknown(rank);
    }
    return std::optional(std::move(table));
  }
  if (static_cast<int>(metric) >= analysis::step_metric_count) {
    return std::optional<analysis::MetricTable>();
  }
  TESSERA_ASSIGN(const auto rows, trace_.step_rows(step));
  return std::optional(analysis::table_of(rows, metric));
}

// Steps are read once for several metrics: who asks for the outliers of one asks for others next.
std::vector<Metric> RankMetrics::sought_with(std::vector<Metric> wanted, bool wants_outliers) {
  const auto of_steps = [](Metric m) { return static_cast<int>(m) < analysis::step_metric_count; };
  const bool more = wants_outliers && of_steps(wanted.front());
  for (int m = 0; m < analysis::step_metric_count && more; ++m) {
    const auto next = static_cast<Metric>(m);
    const bool sought = std::find(wanted.begin(), wanted.end(), next) != wanted.end();
    const bool room = std::ssize(wanted) < large_tables_made;
    if (room && !sought && !known(next).outliers && !known(next).failed) wanted.push_back(next);
  }
  return wanted;
}

Result<std::vector<RankMetrics::Found>> RankMetrics::seek(const analysis::Trace& trace,
                                                          std::vector<Found> found,
                                                          bool wants_outliers) {
  std::vector<Metric> unread;
  for (const Found& of : found) {
    if (of.figures == nullptr) unread.push_back(of.metric);
  }
  TESSERA_ASSIGN(auto tables, analysis::tables_of(trace, unread));
  auto table = tables.begin();
  for (std::size_t k = 0; k < found.size(); ++k) {
    Found& of = found[k];
    const MetricTable* known = of.figures == nullptr ? &*table : &of.figures->table;
    if (wants_outliers) {
      of.outliers = analysis::outliers(*known);
      of.findings = analysis::shown_by(trace, *known);
    }
    if (of.figures != nullptr) continue;
    // What would not be kept is not worked out.
    if (k < large_tables_kept || known->size() < large_table) {
      of.figures = std::make_shared<const MetricFigures>(analysis::figures_of(std::move(*table)));
    }
    *table++ = {};
  }
  return found;
}

void RankMetrics::look(std::vector<Metric> wanted, bool wants_outliers) {
  if (job_.valid()) {
    if (!waits()) return;
    job_.wait();
    take();
  }
  sought_ = sought_with(std::move(wanted), wants_outliers);
  std::vector<Found> found;
  for (const Metric sought : sought_) found.push_back({sought, known(sought).figures, {}, {}});
  const auto launch = waits() ? std::launch::deferred : std::launch::async;
  job_ = std::async(launch, seek, std::cref(trace_), std::move(found), wants_outliers);
  if (!waits()) return;
  job_.wait();
  take();
}

void RankMetrics::take() {
  constexpr std::chrono::seconds now{0};
  if (!job_.valid()) return;
  if (job_.wait_for(now) == std::future_status::timeout) return;
  auto all = job_.get();
  if (!all.ok()) {
    for (const Metric metric : sought_) known(metric).failed = true;
    failure_ = all.status();
    fail(failure_);
    return;
  }
  // What was asked for is the latest, then what is asked for next.
  for (auto found = all->rbegin(); found != all->rend(); ++found) {
    Known& of = known(found->metric);
    of.figures = std::move(found->figures);
    of.used = ++clock_;
    if (!found->outliers) continue;
    of.outliers = std::move(found->outliers);
    of.findings = std::move(found->findings);
  }
  evict();
}

void RankMetrics::evict() {
  const auto large = [](const Known& k) {
    return k.figures != nullptr && k.figures->table.size() >= large_table;
  };
  constexpr auto most = static_cast<std::ptrdiff_t>(large_tables_kept);
  while (std::count_if(known_.begin(), known_.end(), large) > most) {
    Known* oldest = nullptr;
    for (Known& k : known_) {
      if (large(k) && (oldest == nullptr || k.used < oldest->used)) oldest = &k;
    }
    oldest->figures.reset();
  }
}

void RankMetrics::fail(const Status& status) { problem_ = "Steps of ranks: " + status.message(); }

std::optional<std::string> RankMetrics::take_problem() {
  return std::exchange(problem_, std::nullopt);
}

}  // namespace tessera::inspector
