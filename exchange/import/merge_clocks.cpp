// SPDX-License-Identifier: Apache-2.0
#include "exchange/import/merge_clocks.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "exchange/import/clock_offsets.h"
#include "exchange/import/match_collectives.h"

namespace tessera::exchange {
namespace {

// Stretches in which a clock drifts less than ends of collectives differ, long enough to say it.
constexpr std::int64_t meetings_per_stretch = 128;
constexpr Time stretch_min = 1'000'000'000;
constexpr std::int64_t stretches_max = 64;
constexpr double drift_max = 1e-4;  // of a crystal; what seems more is noise

/// The one of `rank`'s group, of each file one member; empty: another rank is the first of it.
std::vector<ClockMeeting> meeting_of(const MergeSources& all, std::int32_t op,
                                     const storage::CommunicatorRow& of, Rank rank) {
  std::vector<ClockMeeting> meeting;
  bool first = true;
  for (const Rank member : group_members(of, all.run.ranks, rank)) {
    const MergeRank* const recorded = all.find(member);
    if (recorded == nullptr) continue;
    if (std::exchange(first, false) && member != rank) return {};
    const MergeRank::Span* const span = recorded->find(op);
    const bool known = std::any_of(meeting.begin(), meeting.end(), [&](const ClockMeeting& m) {
      return m.clock == recorded->source;
    });
    if (span != nullptr && !known) meeting.push_back({recorded->source, span->begin, span->end});
  }
  return meeting;
}

/// All whose members come from several files.
ClockMeetings meetings_of_files(const MergeSources& all) {
  ClockMeetings meetings;
  for (const auto& [id, op] : all.ops) {
    const storage::CommunicatorRow* const of = all.communicator(op);
    if (of == nullptr || !ends_together(op.row.kind)) continue;
    for (const MergeRank& rank : all.ranks) {
      auto meeting = meeting_of(all, id, *of, rank.rank);
      if (meeting.size() > 1) meetings.push_back(std::move(meeting));
    }
  }
  return meetings;
}

/// Clocks are put in order so that one comes first that reaches to the end.
std::size_t furthest(const MergeSources& all) {
  std::size_t best = 0;
  for (std::size_t s = 1; s < all.sources.size(); ++s) {
    if (all.info(s).end > all.info(best).end) best = s;
  }
  return best;
}

Time middle_of(const ClockMeetings& meetings, std::size_t clock) {
  std::vector<Time> ends;
  for (const auto& meeting : meetings) {
    for (const ClockMeeting& m : meeting) {
      if (m.clock == clock) ends.push_back(m.end);
    }
  }
  return ends.empty() ? 0 : ends[ends.size() / 2];
}

void add_points(const ClockMeetings& stretch, MergeClocks& clocks) {
  ClockOffsets offsets(stretch, clocks.lines.size());
  offsets.find();
  clocks.spread = std::max(clocks.spread, offsets.spread());
  for (std::size_t c = 0; c < clocks.lines.size(); ++c) {
    if (!offsets.found(c)) continue;
    auto& points = clocks.lines[c].points;
    const Time at = middle_of(stretch, c);
    if (points.empty() || points.back().at < at) points.push_back({at, offsets.offset(c)});
  }
}

}  // namespace

std::vector<Rank> group_members(const storage::CommunicatorRow& of, Rank world, Rank rank) {
  const std::int64_t size = of.group_size;
  std::vector<Rank> members;
  if (size < 1 || of.group_count < 1 || size * of.group_count != world) return members;
  const std::string_view name = of.name;
  const bool apart = name == "replicate" || name == "replicas" || name == "across nodes";
  const Rank stride = apart ? static_cast<Rank>(of.group_count) : 1;
  const Rank first = apart ? rank % stride : rank - rank % static_cast<Rank>(size);
  for (Rank k = 0; k < size; ++k) members.push_back(first + k * stride);
  return members;
}

Time ClockLine::aligned(Time time) const {
  if (points.empty()) return time;
  const auto next = std::upper_bound(points.begin(), points.end(), time,
                                     [](Time t, const Point& p) { return t < p.at; });
  if (points.size() == 1) return time + points.front().offset;
  // Beyond the ends it goes on as in the stretch next to them.
  const auto b = std::clamp(next, points.begin() + 1, points.end() - 1);
  const auto a = b - 1;
  const double slope =
      static_cast<double>(b->offset - a->offset) / static_cast<double>(b->at - a->at);
  if (time >= a->at && time <= b->at) {
    return time + a->offset + static_cast<Time>(slope * static_cast<double>(time - a->at));
  }
  const ClockLine::Point& from = time < a->at ? *a : *b;
  return time + from.offset +
         static_cast<Time>(std::clamp(slope, -drift_max, drift_max) *
                           static_cast<double>(time - from.at));
}

MergeClocks find_merge_clocks(const MergeSources& all) {
  ClockMeetings meetings = meetings_of_files(all);
  const std::size_t first = furthest(all);
  const auto swapped = [&](std::size_t clock) {
    return clock == first ? 0 : clock == 0 ? first : clock;
  };
  for (auto& meeting : meetings) {
    for (ClockMeeting& m : meeting) m.clock = swapped(m.clock);
  }
  MergeClocks clocks;
  clocks.lines.resize(all.sources.size());
  const auto count = static_cast<std::int64_t>(meetings.size());
  const std::int64_t stretches = std::clamp<std::int64_t>(
      std::min(count / meetings_per_stretch, all.info(first).end / stretch_min), 1, stretches_max);
  for (std::int64_t s = 0; s < stretches; ++s) {
    const auto at = [&](std::int64_t k) { return meetings.begin() + k * count / stretches; };
    add_points({at(s), at(s + 1)}, clocks);
  }
  std::swap(clocks.lines[0], clocks.lines[first]);
  Time lowest = 0;
  for (std::size_t s = 0; s < clocks.lines.size(); ++s) {
    if (clocks.lines[s].points.empty() || meetings.empty()) {
      const bool used = std::any_of(all.ranks.begin(), all.ranks.end(),
                                    [&](const MergeRank& rank) { return rank.source == s; });
      if (s != first && used) clocks.lonely.push_back(s);
      clocks.lines[s].points = {{0, 0}};
    }
    lowest = std::min(lowest, clocks.lines[s].aligned(0));
  }
  for (ClockLine& line : clocks.lines) {
    for (ClockLine::Point& point : line.points) point.offset -= lowest;
  }
  return clocks;
}

}  // namespace tessera::exchange
