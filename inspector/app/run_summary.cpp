// SPDX-License-Identifier: Apache-2.0
#include "inspector/app/run_summary.h"

#include <algorithm>

namespace tessera::inspector {
namespace {

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace

RunSummary summarise(const TraceModel& model) {
  const storage::RankSteps& s = model.steps();
  const TraceRun& run = model.run();
  RunSummary summary;
  if (s.steps == 0 || s.ranks == 0) return summary;
  // The first step warms up, unless it is the only one.
  const auto first = static_cast<std::size_t>(s.steps > 1 ? s.ranks : 0);
  std::vector<double> lengths, exposed, hidden;
  for (std::size_t i = first; i < s.begin.size(); ++i) {
    const auto length = static_cast<double>(s.end[i] - s.begin[i]);
    const auto in_collectives = static_cast<double>(s.communication[i] + s.wait[i]);
    lengths.push_back(length);
    exposed.push_back(length > 0 ? static_cast<double>(s.exposed[i]) / length : 0);
    if (in_collectives > 0) {
      hidden.push_back(1 - std::min(1.0, static_cast<double>(s.exposed[i]) / in_collectives));
    }
  }
  for (const Bytes reserved : s.peak_reserved) summary.peak = std::max(summary.peak, reserved);
  summary.step = static_cast<Time>(median(lengths));
  summary.exposed = median(exposed);
  summary.overlapped = median(hidden);
  const double seconds = static_cast<double>(summary.step) / 1e9;
  if (seconds <= 0) return summary;
  summary.tokens_per_s = static_cast<double>(run.tokens_per_step) / seconds;
  const double peak = run.peak_flops_per_rank * run.ranks;
  if (peak > 0) summary.mfu = run.model_flops_per_step / seconds / peak;
  return summary;
}

}  // namespace tessera::inspector
