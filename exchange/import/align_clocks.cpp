// SPDX-License-Identifier: Apache-2.0
#include "exchange/import/align_clocks.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "exchange/import/clock_offsets.h"

namespace tessera::exchange {
namespace {

constexpr Time sure = 10'000;  // ns; ends that differ by more are named

/// Who met in which collective, those with two ranks or more.
ClockMeetings meetings_of(const ImportedRun& run, const CollectiveMatches& matches) {
  ClockMeetings all(matches.matched.size());
  for (std::size_t r = 0; r < run.ranks().size(); ++r) {
    const ImportedRank& rank = run.ranks()[r];
    for (std::size_t c = 0; c < rank.collectives.size(); ++c) {
      const std::int32_t matched = matches.of[r][c];
      if (matched < 0) continue;
      const ImportedSpan& span = rank.spans[static_cast<std::size_t>(matches.span_of[r][c])];
      if (!ends_together(span.kind)) continue;
      all[static_cast<std::size_t>(matched)].push_back({r, span.begin, span.end});
    }
  }
  std::erase_if(all, [](const auto& meeting) { return meeting.size() < 2; });
  return all;
}

Time begin_of(const ImportedRank& rank) {
  Time begin = std::numeric_limits<Time>::max();
  for (const ImportedSpan& span : rank.spans) begin = std::min(begin, span.begin);
  for (const ImportedMemory& sample : rank.memory) begin = std::min(begin, sample.time);
  return begin;
}

}  // namespace

void align_clocks(ImportedRun& run, const CollectiveMatches& matches) {
  const ClockMeetings meetings = meetings_of(run, matches);
  auto& ranks = run.ranks();
  const bool shared = std::all_of(ranks.begin(), ranks.end(),
                                  [](const ImportedRank& rank) { return rank.shared_clock; });
  const bool device = std::all_of(ranks.begin(), ranks.end(),
                                  [](const ImportedRank& rank) { return rank.device_times; });
  ClockOffsets clocks(meetings, ranks.size());
  if (shared && !device && !clocks.contradicted()) return;
  clocks.find();
  if (clocks.spread() > sure) {
    run.warn(fmt::format(
        "clocks of ranks are aligned by the ends of collectives, which differ by {:.0f} us: times "
        "of different ranks are only as sure as that",
        static_cast<double>(clocks.spread()) / 1000));
  }
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    if (clocks.found(r)) {
      ranks[r].offset = clocks.offset(r);
      continue;
    }
    if (ranks[r].shared_clock && ranks.front().shared_clock) continue;
    ranks[r].offset = begin_of(ranks.front()) - begin_of(ranks[r]);
    run.warn(fmt::format(
        "rank {} has no collective in common with the others: its clock is not aligned, it begins "
        "where rank {} does",
        ranks[r].rank, ranks.front().rank));
  }
}

}  // namespace tessera::exchange
