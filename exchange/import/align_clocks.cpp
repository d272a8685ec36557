// SPDX-License-Identifier: Apache-2.0
#include "exchange/import/align_clocks.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <limits>

namespace tessera::exchange {
namespace {

constexpr int rounds = 4;
constexpr Time sure = 10'000;      // ns; ends that differ by more are named
constexpr Time tolerance = 2'000;  // ns by which clocks of one machine may seem to contradict

struct Meeting {
  std::size_t rank = 0;
  Time begin = 0, end = 0;
};
/// Who met in which collective, those with two ranks or more.
using Meetings = std::vector<std::vector<Meeting>>;

Meetings meetings_of(const ImportedRun& run, const CollectiveMatches& matches) {
  Meetings all(matches.matched.size());
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

Time median_of(std::vector<Time>& values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 == 1) return *middle;
  const Time below = *std::max_element(values.begin(), middle);
  return below + (*middle - below) / 2;
}

class Clocks {
 public:
  Clocks(const ImportedRun& run, const Meetings& meetings) : meetings_(meetings) {
    offsets_.resize(run.ranks().size());
    found_.resize(run.ranks().size());
  }

  /// Ranks that met somebody, starting with the first; others stay where they are.
  void find() {
    if (found_.empty()) return;
    found_[0] = true;
    for (std::size_t next = nearest(); next < found_.size(); next = nearest()) {
      offsets_[next] = distance_to_found(next);
      found_[next] = true;
    }
    for (int round = 0; round < rounds; ++round) settle();
  }

  bool contradicted() const {
    return std::any_of(meetings_.begin(), meetings_.end(), [](const auto& meeting) {
      Time begin = std::numeric_limits<Time>::min(), end = std::numeric_limits<Time>::max();
      for (const Meeting& rank : meeting) {
        begin = std::max(begin, rank.begin);
        end = std::min(end, rank.end);
      }
      return begin - end > tolerance;
    });
  }

  /// How far ends of one collective still are from their middle, the median over all, ns.
  Time spread() const {
    std::vector<Time> distances;
    for (const auto& meeting : meetings_) {
      std::vector<Time> ends;
      for (const Meeting& m : meeting) ends.push_back(m.end + offsets_[m.rank]);
      const Time middle = median_of(ends);
      for (const Time end : ends) distances.push_back(std::abs(end - middle));
    }
    return distances.empty() ? 0 : median_of(distances);
  }
  bool found(std::size_t rank) const { return found_[rank]; }
  Time offset(std::size_t rank) const { return offsets_[rank]; }

 private:
  /// Who is not found yet and met most often somebody who is; the number of ranks: nobody.
  std::size_t nearest() const {
    std::vector<std::int64_t> met(found_.size());
    for (const auto& meeting : meetings_) {
      const bool known = std::any_of(meeting.begin(), meeting.end(),
                                     [&](const Meeting& m) { return found_[m.rank]; });
      for (const Meeting& m : meeting) met[m.rank] += known && !found_[m.rank] ? 1 : 0;
    }
    const auto most = std::max_element(met.begin(), met.end());
    return *most == 0 ? found_.size() : static_cast<std::size_t>(most - met.begin());
  }

  Time distance_to_found(std::size_t rank) const {
    std::vector<Time> distances;
    for (const auto& meeting : meetings_) {
      const auto self = std::find_if(meeting.begin(), meeting.end(),
                                     [&](const Meeting& m) { return m.rank == rank; });
      if (self == meeting.end()) continue;
      for (const Meeting& m : meeting) {
        if (found_[m.rank]) distances.push_back(m.end + offsets_[m.rank] - self->end);
      }
    }
    return median_of(distances);
  }

  /// Everyone moves by the usual distance from the middle of the others; the first stays.
  void settle() {
    std::vector<std::vector<Time>> distances(offsets_.size());
    for (const auto& meeting : meetings_) {
      std::vector<Time> ends;
      for (const Meeting& m : meeting) ends.push_back(m.end + offsets_[m.rank]);
      const Time middle = median_of(ends);
      for (const Meeting& m : meeting) {
        distances[m.rank].push_back(middle - m.end - offsets_[m.rank]);
      }
    }
    for (std::size_t r = 0; r < offsets_.size(); ++r) {
      if (found_[r] && !distances[r].empty()) offsets_[r] += median_of(distances[r]);
    }
    const Time first = offsets_[0];
    for (std::size_t r = 0; r < offsets_.size(); ++r) {
      if (found_[r]) offsets_[r] -= first;
    }
  }

  const Meetings& meetings_;
  std::vector<Time> offsets_;
  std::vector<bool> found_;
};

Time begin_of(const ImportedRank& rank) {
  Time begin = std::numeric_limits<Time>::max();
  for (const ImportedSpan& span : rank.spans) begin = std::min(begin, span.begin);
  for (const ImportedMemory& sample : rank.memory) begin = std::min(begin, sample.time);
  return begin;
}

}  // namespace

void align_clocks(ImportedRun& run, const CollectiveMatches& matches) {
  const Meetings meetings = meetings_of(run, matches);
  auto& ranks = run.ranks();
  const bool shared = std::all_of(ranks.begin(), ranks.end(),
                                  [](const ImportedRank& rank) { return rank.shared_clock; });
  const bool device = std::all_of(ranks.begin(), ranks.end(),
                                  [](const ImportedRank& rank) { return rank.device_times; });
  Clocks clocks(run, meetings);
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
