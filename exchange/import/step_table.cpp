// SPDX-License-Identifier: Apache-2.0
#include "exchange/import/step_table.h"

#include <algorithm>
#include <limits>
#include <set>

namespace tessera::exchange {
namespace {

std::vector<std::int64_t> numbers_of(const ImportedRun& run) {
  std::set<std::int64_t> numbers;
  for (const ImportedRank& rank : run.ranks()) {
    for (const ImportedStep& step : rank.steps) numbers.insert(step.number);
  }
  return {numbers.begin(), numbers.end()};
}

StepRange whole(const ImportedRank& rank) {
  StepRange range{std::numeric_limits<Time>::max(), std::numeric_limits<Time>::min(), true};
  for (const ImportedSpan& span : rank.spans) {
    range.begin = std::min(range.begin, span.begin);
    range.end = std::max(range.end, span.end);
  }
  for (const ImportedMemory& sample : rank.memory) {
    range.begin = std::min(range.begin, sample.time);
    range.end = std::max(range.end, sample.time);
  }
  return range.begin < range.end ? range : StepRange{};
}

/// Makes steps follow each other, whatever a file says, and returns their begins.
std::vector<Time> in_order(std::vector<StepRange>& ranges, const std::vector<Time>& earliest) {
  std::vector<Time> begins;
  for (std::size_t s = 0; s < ranges.size(); ++s) {
    if (!ranges[s].known) {
      const Time begin = earliest[s] == std::numeric_limits<Time>::max() ? 0 : earliest[s];
      ranges[s] = {begin, begin, false};
    }
    if (!begins.empty()) ranges[s].begin = std::max(ranges[s].begin, begins.back());
    ranges[s].end = std::max(ranges[s].end, ranges[s].begin);
    if (s > 0) ranges[s - 1].end = std::min(ranges[s - 1].end, ranges[s].begin);
    begins.push_back(ranges[s].begin);
  }
  return begins;
}

}  // namespace

StepTable::StepTable(ImportedRun& run) : numbers_(numbers_of(run)) {
  const bool unmarked = numbers_.empty();
  if (unmarked) {
    numbers_ = {0};
    run.warn("no steps are marked: all of it counts as one step");
  }
  std::vector<Time> earliest(numbers_.size(), std::numeric_limits<Time>::max());
  for (const ImportedRank& rank : run.ranks()) {
    auto& ranges = ranges_.emplace_back(numbers_.size());
    if (unmarked) ranges[0] = whole(rank);
    for (const ImportedStep& step : rank.steps) {
      const auto at = std::lower_bound(numbers_.begin(), numbers_.end(), step.number);
      ranges[static_cast<std::size_t>(at - numbers_.begin())] = {step.begin, step.end, true};
    }
    for (std::size_t s = 0; s < ranges.size(); ++s) {
      if (ranges[s].known) earliest[s] = std::min(earliest[s], ranges[s].begin);
    }
  }
  for (auto& ranges : ranges_) begins_.push_back(in_order(ranges, earliest));
}

void StepTable::assign(std::size_t rank, std::vector<ImportedSpan>& spans) const {
  std::int32_t lane = -1, part = 0;
  const std::vector<Time>& begins = begins_[rank];
  const StepRange& last = ranges_[rank].back();
  for (ImportedSpan& span : spans) {
    if (span.lane != lane) part = 0;
    lane = span.lane;
    std::int32_t own = 0;
    const auto named = std::lower_bound(numbers_.begin(), numbers_.end(), span.step);
    if (span.step != ImportedSpan::unknown_step && named != numbers_.end() && *named == span.step) {
      own = static_cast<std::int32_t>(named - numbers_.begin()) + 1;
    } else {
      const auto after = std::upper_bound(begins.begin(), begins.end(), span.begin);
      own = static_cast<std::int32_t>(after - begins.begin());
      if (own == steps() && span.begin >= last.end && last.known) own = steps() + 1;
    }
    part = std::max(part, own);
    span.step = part;
  }
}

}  // namespace tessera::exchange
