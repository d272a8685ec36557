// SPDX-License-Identifier: Apache-2.0
// Metrics of all ranks and steps, found out beside the frames where that takes long.
//
// The idea: of 16,384 ranks and 1,000 steps a metric takes half a second and 65 MB. So a thread
// finds out what a panel asks for, and what it is likely to ask for next, the panel draws what is
// known so far, and of such tables only the latest are kept.
#pragma once

#include <array>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tessera/analysis/findings.h"
#include "tessera/analysis/metrics.h"

namespace tessera::inspector {

class RankMetrics {
 public:
  /// `trace` outlives it.
  explicit RankMetrics(const analysis::Trace& trace) : trace_(trace) {}

  /// Whether answers wait for what they need, as in pictures that a script asks for. Where there
  /// are few ranks and steps they always do.
  void set_patient(bool patient) { patient_ = patient; }
  /// What is known of the metric until somebody asks again; nullptr: nothing yet.
  const analysis::MetricFigures* figures(analysis::Metric metric);
  /// Ranks that stand out in it, likewise.
  const std::vector<analysis::Outlier>* outliers(analysis::Metric metric);
  /// What metrics show of faults; none: not yet. Fails: as `Trace::step_rows`.
  std::optional<Result<analysis::ShownFindings>> shown_findings();
  /// The metric that an overview shows first, likewise.
  std::optional<analysis::Metric> telling();
  /// One step of a metric, coloured by all steps as soon as they are known, before by itself;
  /// nullptr if it cannot be read, or takes the spans of all steps that are not read yet. REQUIRES:
  /// the trace has the step.
  const analysis::MetricFigures* step(analysis::Metric metric, std::int32_t step);
  /// Something is still to come.
  bool at_work() const { return job_.valid(); }
  /// Why something cannot be read, once.
  std::optional<std::string> take_problem();

 private:
  struct Known {
    std::shared_ptr<const analysis::MetricFigures> figures;
    std::optional<std::vector<analysis::Outlier>> outliers;
    std::vector<analysis::Finding> findings;  // that it shows; with outliers
    bool failed = false;
    std::int64_t used = 0;
  };
  struct Found {
    analysis::Metric metric{};
    std::shared_ptr<const analysis::MetricFigures> figures;
    std::optional<std::vector<analysis::Outlier>> outliers;
    std::vector<analysis::Finding> findings;
  };
  Known& known(analysis::Metric metric) { return known_[static_cast<std::size_t>(metric)]; }
  Result<std::optional<analysis::MetricTable>> table_of_step(
      analysis::Metric metric, std::int32_t step, const analysis::MetricFigures* all) const;
  bool waits() const { return patient_ || trace_.holds_steps(); }
  /// What a job finds out where `wanted` are asked for: those first.
  std::vector<analysis::Metric> sought_with(std::vector<analysis::Metric> wanted,
                                            bool wants_outliers);
  /// Adds what `found` lacks.
  static Result<std::vector<Found>> seek(const analysis::Trace& trace, std::vector<Found> found,
                                         bool wants_outliers);
  /// Has the thread look for metrics, or their outliers; once at a time.
  void look(std::vector<analysis::Metric> wanted, bool outliers);
  void take();
  void evict();
  void fail(const Status& status);

  const analysis::Trace& trace_;
  bool patient_ = false;
  std::array<Known, analysis::metric_count> known_;
  std::int64_t clock_ = 0;  // of use
  std::optional<std::string> problem_;
  Status failure_;                        // why some have failed
  std::vector<analysis::Metric> sought_;  // by the thread
  std::future<Result<std::vector<Found>>> job_;
  // The latest step that was asked for.
  std::int32_t step_ = -1;
  bool step_scaled_ = false;  // by all steps
  analysis::MetricFigures of_step_;
};

}  // namespace tessera::inspector
