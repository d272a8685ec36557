// SPDX-License-Identifier: Apache-2.0
#include "exchange/merge/merge_clocks.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "exchange/import/clock_offsets.h"
#include "exchange/import/match_collectives.h"
#include "exchange/merge/merge_groups.h"
#include "exchange/merge/merge_ops.h"
#include "exchange/merge/merge_spans.h"

namespace tessera::exchange {
namespace {

// Stretches in which a clock drifts less than ends of collectives differ, long enough to say it.
constexpr std::int64_t meetings_per_stretch = 128;
constexpr Time stretch_min = 1'000'000'000;
constexpr std::int64_t stretches_max = 64;
constexpr double drift_max = 1e-4;  // of a crystal; what seems more is noise

/// Collectives whose members come from several files: all, or of very many those of some
/// operations, of which a hash decides, as operations repeat.
class Meetings {
 public:
  bool wants(std::int32_t op) const { return hash_of(op) % one_in_ == 0; }
  void add(std::int32_t op, std::vector<ClockMeeting> meeting) {
    size_ += meeting.size();
    ops_.push_back(op);
    all_.push_back(std::move(meeting));
    if (size_ > size_max) thin();
  }
  ClockMeetings take() { return std::move(all_); }

 private:
  static constexpr std::size_t size_max = 1 << 18;

  static std::uint64_t hash_of(std::int32_t op) {
    return (static_cast<std::uint64_t>(op) + 1) * 0x9E3779B97F4A7C15 >> 32;
  }
  void thin() {
    one_in_ *= 2;
    size_ = 0;
    std::size_t kept = 0;
    for (std::size_t k = 0; k < all_.size(); ++k) {
      if (!wants(ops_[k])) continue;
      size_ += all_[k].size();
      ops_[kept] = ops_[k];
      if (kept != k) all_[kept] = std::move(all_[k]);
      ++kept;
    }
    ops_.resize(kept);
    all_.resize(kept);
  }

  std::uint64_t one_in_ = 1;
  std::size_t size_ = 0;  // members of all
  std::vector<std::int32_t> ops_;
  ClockMeetings all_;
};

/// Of each file one member.
std::vector<ClockMeeting> meeting_of(const MergeSources& all, const MergeGroup& group,
                                     const std::vector<const MergeSpan*>& spans) {
  std::vector<ClockMeeting> meeting;
  for (const std::size_t member : group.members) {
    const std::size_t source = all.ranks[member].source;
    const bool known = std::any_of(meeting.begin(), meeting.end(),
                                   [&](const ClockMeeting& m) { return m.clock == source; });
    if (spans[member] == nullptr || known) continue;
    meeting.push_back({source, spans[member]->begin, spans[member]->end});
  }
  return meeting;
}

Result<ClockMeetings> meetings_of_files(const MergeSources& all) {
  Meetings meetings;
  if (all.sources.size() < 2) return meetings.take();
  MergeOps ops(all);
  MergeSpans spans(all);
  MergeGroups groups(all);
  while (true) {
    TESSERA_ASSIGN(const MergeOp* const op, ops.next());
    if (op == nullptr) return meetings.take();
    const std::int32_t id = op->row.id;
    if (op->communicator == nullptr || !ends_together(op->row.kind) || !meetings.wants(id)) {
      continue;
    }
    TESSERA_ASSIGN(const auto* const of_op, spans.of(id));
    for (const MergeGroup& group : groups.of(*op->communicator)) {
      auto meeting = meeting_of(all, group, *of_op);
      if (meeting.size() > 1) meetings.add(id, std::move(meeting));
    }
  }
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

Result<MergeClocks> find_merge_clocks(const MergeSources& all) {
  TESSERA_ASSIGN(ClockMeetings meetings, meetings_of_files(all));
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
