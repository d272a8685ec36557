// SPDX-License-Identifier: Apache-2.0
#include "exchange/import/match_collectives.h"

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <map>
#include <tuple>

namespace tessera::exchange {
namespace {

constexpr std::int64_t shift_max = 64;  // collectives by which recordings may begin apart

/// A collective of one rank, in the order of its calls.
struct Call {
  std::int32_t collective = 0;
  Time begin = 0, end = 0;
  OpKind kind = OpKind::all_gather;
  Bytes bytes{};
  std::int64_t step = -1;  // the source's number; -1: unknown
  std::int64_t sequence = -1;

  bool like(const Call& other) const { return kind == other.kind && bytes == other.bytes; }
};

struct RankCalls {
  std::size_t rank = 0;
  std::vector<Call> calls;
};

std::int64_t step_of(const ImportedRank& rank, const ImportedSpan& span) {
  if (span.step != ImportedSpan::unknown_step) return span.step;
  const auto after =
      std::upper_bound(rank.steps.begin(), rank.steps.end(), span.begin,
                       [](Time time, const ImportedStep& step) { return time < step.begin; });
  if (after == rank.steps.begin()) return -1;
  const ImportedStep& step = *std::prev(after);
  return span.begin < step.end ? step.number : -1;
}

using CallsByGroup = std::map<std::int32_t, std::vector<RankCalls>>;

CallsByGroup calls_by_group(const ImportedRun& run, CollectiveMatches& matches) {
  CallsByGroup groups;
  for (std::size_t r = 0; r < run.ranks().size(); ++r) {
    const ImportedRank& rank = run.ranks()[r];
    matches.of.emplace_back(rank.collectives.size(), -1);
    auto& span_of = matches.span_of.emplace_back(rank.collectives.size(), -1);
    std::map<std::int32_t, std::vector<Call>> calls;
    for (std::size_t s = 0; s < rank.spans.size(); ++s) {
      const ImportedSpan& span = rank.spans[s];
      if (span.collective < 0) continue;
      const auto index = static_cast<std::size_t>(span.collective);
      const ImportedCollective& collective = rank.collectives[index];
      span_of[index] = static_cast<std::int64_t>(s);
      calls[collective.group].push_back({span.collective, span.begin, span.end, span.kind,
                                         collective.bytes, step_of(rank, span),
                                         collective.sequence});
    }
    for (auto& [group, list] : calls) {
      std::stable_sort(list.begin(), list.end(),
                       [](const Call& a, const Call& b) { return a.begin < b.begin; });
      groups[group].push_back({r, std::move(list)});
    }
  }
  return groups;
}

class GroupMatcher {
 public:
  GroupMatcher(std::int32_t group, CollectiveMatches& matches) : group_(group), matches_(matches) {}

  /// The number says which is which; of like numbers the order.
  void by_sequence(const std::vector<RankCalls>& ranks) {
    std::map<std::tuple<std::int64_t, OpKind, std::int64_t>, std::int32_t> instances;
    for (const RankCalls& rank : ranks) {
      std::map<std::pair<std::int64_t, OpKind>, std::int64_t> seen;
      for (const Call& call : rank.calls) {
        const std::int64_t nth = seen[{call.sequence, call.kind}]++;
        join(rank.rank, call, instances[{call.sequence, call.kind, nth}]);
      }
    }
  }

  void by_step(const std::vector<RankCalls>& ranks) {
    using Like = std::tuple<std::int64_t, OpKind, Bytes>;
    std::map<std::pair<Like, std::int64_t>, std::int32_t> instances;
    for (const RankCalls& rank : ranks) {
      std::map<Like, std::int64_t> seen;
      for (const Call& call : rank.calls) {
        const Like like{call.step, call.kind, call.bytes};
        std::int32_t alone = 0;
        const std::int64_t nth = seen[like]++;
        join(rank.rank, call, call.step < 0 ? alone : instances[{like, nth}]);
      }
    }
  }

  /// Against the rank that has most.
  void by_shift(const std::vector<RankCalls>& ranks) {
    const auto longest = std::max_element(
        ranks.begin(), ranks.end(),
        [](const RankCalls& a, const RankCalls& b) { return a.calls.size() < b.calls.size(); });
    std::vector<std::int32_t> instances(longest->calls.size(), 0);
    for (const RankCalls& rank : ranks) {
      const std::int64_t shift = &rank == &*longest ? 0 : shift_of(longest->calls, rank.calls);
      for (std::size_t i = 0; i < rank.calls.size(); ++i) {
        const std::int64_t at = static_cast<std::int64_t>(i) + shift;
        const bool there = at >= 0 && at < static_cast<std::int64_t>(instances.size()) &&
                           longest->calls[static_cast<std::size_t>(at)].like(rank.calls[i]);
        std::int32_t alone = 0;
        join(rank.rank, rank.calls[i], there ? instances[static_cast<std::size_t>(at)] : alone);
      }
    }
  }

 private:
  /// `instance`: 1 + the index of the matched one, 0 as long as there is none.
  void join(std::size_t rank, const Call& call, std::int32_t& instance) {
    if (instance == 0) {
      matches_.matched.push_back({group_, 0});
      instance = static_cast<std::int32_t>(matches_.matched.size());
    }
    ++matches_.matched[static_cast<std::size_t>(instance) - 1].members;
    matches_.of[rank][static_cast<std::size_t>(call.collective)] = instance - 1;
  }

  /// How alike the lists are if `b` begins at a[shift]: calls that agree, and how far the distances
  /// of their ends differ (the median from their median, ns).
  static std::pair<std::int64_t, Time> likeness(const std::vector<Call>& a,
                                                const std::vector<Call>& b, std::int64_t shift) {
    std::vector<Time> distances;
    for (std::size_t i = 0; i < b.size(); ++i) {
      const std::int64_t at = static_cast<std::int64_t>(i) + shift;
      if (at < 0 || at >= static_cast<std::int64_t>(a.size())) continue;
      const Call& other = a[static_cast<std::size_t>(at)];
      if (other.like(b[i])) distances.push_back(b[i].end - other.end);
    }
    if (distances.empty()) return {0, std::numeric_limits<Time>::max()};
    const auto middle = distances.begin() + static_cast<std::ptrdiff_t>(distances.size() / 2);
    std::nth_element(distances.begin(), middle, distances.end());
    const Time usual = *middle;
    for (Time& distance : distances) distance = std::abs(distance - usual);
    std::nth_element(distances.begin(), middle, distances.end());
    return {static_cast<std::int64_t>(distances.size()), *middle};
  }

  static std::int64_t shift_of(const std::vector<Call>& a, const std::vector<Call>& b) {
    std::vector<std::tuple<std::int64_t, std::int64_t, Time>> tried;  // shift, agreeing, spread
    std::int64_t most = 0;
    for (std::int64_t shift = -shift_max; shift <= shift_max; ++shift) {
      const auto [agreeing, spread] = likeness(a, b, shift);
      tried.emplace_back(shift, agreeing, spread);
      most = std::max(most, agreeing);
    }
    std::int64_t best = 0;
    Time least = std::numeric_limits<Time>::max();
    // Smaller shifts first: another has to be better by more than chance.
    std::stable_sort(tried.begin(), tried.end(), [](const auto& x, const auto& y) {
      return std::abs(std::get<0>(x)) < std::abs(std::get<0>(y));
    });
    for (const auto& [shift, agreeing, spread] : tried) {
      constexpr std::int64_t nearly = 8;  // a shift costs some at the ends
      if (agreeing * nearly < most * (nearly - 1)) continue;
      if (least != std::numeric_limits<Time>::max() && spread > least - least / 4) continue;
      best = shift;
      least = spread;
    }
    return best;
  }

  const std::int32_t group_;
  CollectiveMatches& matches_;
};

template <class Has>
bool all_have(const std::vector<RankCalls>& ranks, Has has) {
  return std::all_of(ranks.begin(), ranks.end(), [&](const RankCalls& rank) {
    return std::all_of(rank.calls.begin(), rank.calls.end(), has);
  });
}

// Enough of them: those before the first step have none.
bool most_have_steps(const std::vector<RankCalls>& ranks) {
  return std::all_of(ranks.begin(), ranks.end(), [](const RankCalls& rank) {
    const auto with = std::count_if(rank.calls.begin(), rank.calls.end(),
                                    [](const Call& call) { return call.step >= 0; });
    return 2 * with >= static_cast<std::ptrdiff_t>(rank.calls.size());
  });
}

}  // namespace

CollectiveMatches match_collectives(const ImportedRun& run) {
  CollectiveMatches matches;
  for (const auto& [group, ranks] : calls_by_group(run, matches)) {
    GroupMatcher matcher(group, matches);
    if (all_have(ranks, [](const Call& call) { return call.sequence >= 0; })) {
      matcher.by_sequence(ranks);
    } else if (most_have_steps(ranks)) {
      matcher.by_step(ranks);
    } else {
      matcher.by_shift(ranks);
    }
  }
  return matches;
}

}  // namespace tessera::exchange
