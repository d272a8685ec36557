// SPDX-License-Identifier: Apache-2.0
// The shares of a step's time that ranks spend on each kind of work, from a trace.
#pragma once

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "tessera/storage/trace_reader.h"
#include "tests/bench/measure.h"

namespace tessera::bench {

/// Parts of a step, median over all steps but the first of the average rank.
struct StepShares {
  double computes = 0;
  double communicates = 0;  // and does not compute
  double copies = 0;        // on other streams than computing, and none of the above
  double between = 0;       // before its first operation: ranks meet to read the loss, and log it
  double none = 0;          // the engine's own time, and what other processes take
};

namespace shares {

using Spans = std::vector<std::pair<Time, Time>>;

/// Time in [begin, end) that some span covers.
inline Time covered(Spans spans, Time begin, Time end) {
  std::sort(spans.begin(), spans.end());
  Time sum = 0;
  for (const auto& [from, to] : spans) {
    const Time last = std::min(to, end);
    if (last <= std::max(from, begin)) continue;
    sum += last - std::max(from, begin);
    begin = last;
  }
  return sum;
}

inline Result<StepShares> of_rank(const storage::TraceReader& trace, Rank rank, Time begin,
                                  Time end) {
  TESSERA_ASSIGN(const auto lanes, trace.lanes(rank, begin, end));
  Spans spans;
  double before = 0;
  // Adds the streams of `role`; returns what they cover that those before them did not.
  const auto add = [&](auto&& wanted) {
    for (const storage::Lane& lane : lanes) {
      const auto& streams = trace.info().streams;
      const auto stream = std::find_if(streams.begin(), streams.end(),
                                       [&](const auto& s) { return s.id == lane.stream; });
      if (stream == streams.end() || !wanted(stream->role)) continue;
      for (std::size_t k = 0; k < lane.op.size(); ++k) {
        spans.emplace_back(lane.begin[k], lane.end[k]);
      }
    }
    const double all = static_cast<double>(covered(spans, begin, end)) /
                       static_cast<double>(std::max<Time>(end - begin, 1));
    return all - std::exchange(before, all);
  };
  StepShares out;
  out.computes = add([](StreamRole role) { return role == StreamRole::compute; });
  out.communicates = add([](StreamRole role) { return role == StreamRole::communication; });
  out.copies = add([](StreamRole role) {
    return role != StreamRole::compute && role != StreamRole::communication;
  });
  Time first = end;
  for (const auto& [from, to] : spans) first = std::min(first, std::max(from, begin));
  out.between =
      static_cast<double>(first - begin) / static_cast<double>(std::max<Time>(end - begin, 1));
  out.none = 1 - before - out.between;
  return out;
}

}  // namespace shares

inline Result<StepShares> step_shares(const std::string& path) {
  TESSERA_ASSIGN(const auto trace, storage::TraceReader::open(path));
  TESSERA_ASSIGN(const auto steps, trace.rank_steps());
  constexpr double StepShares::*parts[] = {&StepShares::computes, &StepShares::communicates,
                                           &StepShares::copies, &StepShares::between,
                                           &StepShares::none};
  std::vector<double> values[std::size(parts)];
  for (std::int32_t step = 1; step < steps.steps; ++step) {
    StepShares mean;
    for (Rank rank = 0; rank < steps.ranks; ++rank) {
      const auto at = static_cast<std::size_t>(step) * static_cast<std::size_t>(steps.ranks) +
                      static_cast<std::size_t>(rank);
      TESSERA_ASSIGN(const auto one, shares::of_rank(trace, rank, steps.begin[at], steps.end[at]));
      for (auto part : parts) mean.*part += one.*part / steps.ranks;
    }
    for (std::size_t k = 0; k < std::size(parts); ++k) values[k].push_back(mean.*parts[k]);
  }
  StepShares out;
  for (std::size_t k = 0; k < std::size(parts) && !values[k].empty(); ++k) {
    out.*parts[k] = median(values[k]);
  }
  return out;
}

}  // namespace tessera::bench
