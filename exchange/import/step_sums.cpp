// SPDX-License-Identifier: Apache-2.0
#include "exchange/import/step_sums.h"

#include <algorithm>
#include <utility>

namespace tessera::exchange {
namespace {

using Interval = std::pair<Time, Time>;
using Intervals = std::vector<Interval>;

/// Ascending and apart.
Intervals joined(Intervals intervals) {
  std::sort(intervals.begin(), intervals.end());
  Intervals out;
  for (const auto& [begin, end] : intervals) {
    if (begin >= end) continue;
    if (!out.empty() && begin <= out.back().second) {
      out.back().second = std::max(out.back().second, end);
    } else {
      out.emplace_back(begin, end);
    }
  }
  return out;
}

/// What of `a` is not in `b`; both are joined.
Intervals without(const Intervals& a, const Intervals& b) {
  Intervals out;
  auto other = b.begin();
  for (auto [begin, end] : a) {
    while (other != b.end() && other->second <= begin) ++other;
    for (auto it = other; it != b.end() && it->first < end; ++it) {
      if (begin < it->first) out.emplace_back(begin, it->first);
      begin = std::max(begin, it->second);
    }
    if (begin < end) out.emplace_back(begin, end);
  }
  return out;
}

/// The parts of exposed collectives after which compute goes on: not those that it is idle beyond.
Intervals blocking_parts(const Intervals& exposed, const Intervals& compute) {
  Intervals out;
  for (const Interval& part : exposed) {
    const auto next = std::lower_bound(compute.begin(), compute.end(), Interval{part.second, 0});
    const bool before = !compute.empty() && compute.front().first < part.first;
    if (before && next != compute.end()) out.push_back(part);
  }
  return out;
}

std::vector<Time> by_step(const Intervals& intervals, const std::vector<StepRange>& steps) {
  std::vector<Time> sums(steps.size());
  auto first = intervals.begin();
  for (std::size_t s = 0; s < steps.size(); ++s) {
    const auto [from, to, known] = steps[s];
    if (!known) continue;
    first = std::upper_bound(intervals.begin(), intervals.end(), from,
                             [](Time time, const Interval& i) { return time < i.second; });
    for (auto it = first; it != intervals.end() && it->first < to; ++it) {
      sums[s] += std::min(it->second, to) - std::max(it->first, from);
    }
  }
  return sums;
}

void add_peaks(const ImportedRank& rank, const std::vector<StepRange>& steps, StepSums& sums) {
  sums.peak_allocated.resize(steps.size());
  sums.peak_reserved.resize(steps.size());
  for (std::size_t s = 0; s < steps.size(); ++s) {
    if (!steps[s].known) continue;
    auto sample =
        std::lower_bound(rank.memory.begin(), rank.memory.end(), steps[s].begin,
                         [](const ImportedMemory& m, Time time) { return m.time < time; });
    if (sample != rank.memory.begin()) --sample;  // what was held when the step began
    for (; sample != rank.memory.end() && sample->time < steps[s].end; ++sample) {
      sums.peak_allocated[s] = std::max(sums.peak_allocated[s], sample->allocated);
      sums.peak_reserved[s] =
          std::max({sums.peak_reserved[s], sample->reserved, sample->allocated});
    }
  }
}

}  // namespace

StepSums step_sums(const ImportedRun& run, std::size_t rank, const StepTable& steps,
                   const std::vector<CollectiveTimes>& collectives) {
  const ImportedRank& imported = run.ranks()[rank];
  const std::vector<StepRange>& ranges = steps.ranges(rank);
  Intervals compute, communication;
  for (const ImportedSpan& span : imported.spans) {
    const StreamRole role = imported.lanes[static_cast<std::size_t>(span.lane)].role;
    if (role == StreamRole::compute) compute.emplace_back(span.begin, span.end);
  }
  StepSums sums;
  sums.communication.resize(ranges.size());
  sums.wait.resize(ranges.size());
  for (const CollectiveTimes& c : collectives) {
    communication.emplace_back(c.begin, c.end);
    const std::int32_t step = steps.step_of(c.part);
    if (step < 0) continue;
    sums.communication[static_cast<std::size_t>(step)] += c.end - c.ready;
    sums.wait[static_cast<std::size_t>(step)] += c.ready - c.begin;
  }
  compute = joined(std::move(compute));
  const Intervals exposed = without(joined(std::move(communication)), compute);
  sums.compute = by_step(compute, ranges);
  sums.exposed = by_step(exposed, ranges);
  sums.blocking = by_step(blocking_parts(exposed, compute), ranges);
  add_peaks(imported, ranges, sums);
  return sums;
}

}  // namespace tessera::exchange
