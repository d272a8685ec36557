// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <set>

#include "exchange/formats/flight_dumps.h"

namespace tessera::exchange {
namespace {

/// "rank 2", "ranks 0-1, 3".
std::string rank_list(const std::vector<Rank>& ranks) {
  std::vector<std::string> parts;
  for (std::size_t i = 0; i < ranks.size();) {
    std::size_t end = i + 1;
    while (end < ranks.size() && ranks[end] == ranks[end - 1] + 1) ++end;
    parts.push_back(end == i + 1 ? fmt::format("{}", ranks[i])
                                 : fmt::format("{}-{}", ranks[i], ranks[end - 1]));
    i = end;
  }
  constexpr std::size_t shown = 8;
  const std::string more = parts.size() > shown ? ", ..." : "";
  if (parts.size() > shown) parts.resize(shown);
  return fmt::format("rank{} {}{}", ranks.size() == 1 ? "" : "s", fmt::join(parts, ", "), more);
}

std::string capitalised(std::string text) {
  if (!text.empty() && text[0] == 'r') text[0] = 'R';
  return text;
}

std::string sizes_of(const FlightCall& call) {
  const std::string elements = call.elements_in == call.elements_out
                                   ? fmt::format("{}", call.elements_in)
                                   : fmt::format("{} to {}", call.elements_in, call.elements_out);
  return fmt::format("{} elements{}{}", elements, call.dtype.empty() ? "" : " of ", call.dtype);
}

std::string at_site(const FlightCall& call) {
  return call.site.empty() ? "" : fmt::format(", in {}", call.site);
}

/// What all members have to agree on.
std::string signature_of(const FlightCall& call) {
  // Only the root of these has all of them, and all_to_all may be uneven.
  const bool even = call.operation != "gather" && call.operation != "scatter" &&
                    call.operation.find("all_to_all") == std::string::npos &&
                    call.operation.find("alltoall") == std::string::npos &&
                    call.operation != "coalesced" &&
                    call.operation.find("barrier") == std::string::npos;
  return even ? fmt::format("{} of {}", call.operation, sizes_of(call)) : call.operation;
}

class GroupFindings {
 public:
  GroupFindings(const FlightDumps& dumps, const FlightGroup& group) : group_(group) {
    for (const Rank rank : members()) {
      const bool dumped = std::binary_search(dumps.ranks.begin(), dumps.ranks.end(), rank);
      (dumped ? present_ : absent_).push_back(rank);
    }
    const auto size = static_cast<std::int64_t>(present_.size() + absent_.size());
    members_known_ =
        !group.members.empty() || (group.size > 0 && group.size <= size) ||
        (dumps.world > 0 && static_cast<std::int64_t>(dumps.ranks.size()) >= dumps.world);
    for (const auto& [rank, member] : group.by_rank) {
      for (const auto& [sequence, call] : member.calls) calls_[sequence][rank] = &call;
    }
  }

  std::optional<ImportedDiagnostic> find() const {
    for (const auto& [sequence, calls] : calls_) {
      if (auto found = mismatch(sequence, calls)) return found;
      if (auto found = not_called(sequence, calls)) return found;
      if (auto found = not_finished(sequence, calls)) return found;
    }
    return absent_.empty() ? std::nullopt : no_dump();
  }

 private:
  using Calls = std::map<Rank, const FlightCall*>;

  std::vector<Rank> members() const {
    std::set<Rank> all(group_.members.begin(), group_.members.end());
    for (const auto& [rank, member] : group_.by_rank) all.insert(rank);
    constexpr std::int64_t sane = 1 << 20;
    if (group_.members.empty() && group_.whole_world) {
      for (Rank rank = 0; rank < std::min(group_.size, sane); ++rank) all.insert(rank);
    }
    return {all.begin(), all.end()};
  }

  std::string name_of(std::int64_t sequence, const FlightCall& call) const {
    return fmt::format("{} {} of {}", call.operation, sequence, group_.title);
  }

  /// Ranks that are in it and wait.
  static std::vector<Rank> waiting(const Calls& calls) {
    std::vector<Rank> ranks;
    for (const auto& [rank, call] : calls) {
      if (!call->finished) ranks.push_back(rank);
    }
    return ranks;
  }

  static const FlightCall& first_of(const Calls& calls) {
    return *std::min_element(calls.begin(), calls.end(), [](const auto& a, const auto& b) {
              return a.second->created < b.second->created;
            })->second;
  }

  std::optional<ImportedDiagnostic> mismatch(std::int64_t sequence, const Calls& calls) const {
    std::map<std::string, std::vector<Rank>> kinds;
    for (const auto& [rank, call] : calls) kinds[signature_of(*call)].push_back(rank);
    if (kinds.size() < 2) return {};
    // Those who are fewest are most likely wrong.
    std::vector<std::pair<std::string, std::vector<Rank>>> sorted(kinds.begin(), kinds.end());
    std::stable_sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) {
      return a.second.size() < b.second.size();
    });
    std::vector<std::string> parts;
    for (const auto& [signature, ranks] : sorted) {
      const FlightCall& call = *calls.at(ranks.front());
      parts.push_back(fmt::format("{} called {} of {}{}", rank_list(ranks), call.operation,
                                  sizes_of(call), at_site(call)));
      if (parts.size() == 4) break;
    }
    const Rank rank = sorted.front().second.front();
    return ImportedDiagnostic{DiagnosticSeverity::error, "collective_mismatch", rank,
                              calls.at(rank)->created,
                              fmt::format("Collective {} of {} is not the same everywhere: {}.",
                                          sequence, group_.title, fmt::join(parts, "; "))};
  }

  std::optional<ImportedDiagnostic> not_called(std::int64_t sequence, const Calls& calls) const {
    std::vector<Rank> late;
    for (const Rank rank : present_) {
      const auto member = group_.by_rank.find(rank);
      const std::int64_t last = member == group_.by_rank.end() ? -1 : member->second.last();
      if (last < sequence) late.push_back(rank);
    }
    if (late.empty()) return {};
    const FlightCall& call = first_of(calls);
    std::vector<Rank> callers = waiting(calls);
    if (callers.empty()) {
      for (const auto& [rank, unused] : calls) callers.push_back(rank);
    }
    return ImportedDiagnostic{
        DiagnosticSeverity::error, "missing_collective", late.front(), call.created,
        fmt::format("{} has not called {} ({}), which {} called{}; {}.",
                    capitalised(rank_list(late)), name_of(sequence, call), sizes_of(call),
                    rank_list(callers), at_site(call), last_of(late.front()))};
  }

  /// "its last one there was all_gather 4, in f (a.py:3)".
  std::string last_of(Rank rank) const {
    const auto member = group_.by_rank.find(rank);
    if (member == group_.by_rank.end() || member->second.calls.empty()) {
      return fmt::format("rank {} has recorded none there", rank);
    }
    const auto& [sequence, call] = *member->second.calls.rbegin();
    return fmt::format("the last one of rank {} there was {} {}{}", rank, call.operation, sequence,
                       at_site(call));
  }

  std::optional<ImportedDiagnostic> not_finished(std::int64_t sequence, const Calls& calls) const {
    const std::vector<Rank> ranks = waiting(calls);
    if (ranks.empty()) return {};
    const FlightCall& call = *calls.at(ranks.front());
    const std::string name = name_of(sequence, call);
    if (absent_.empty()) {
      return ImportedDiagnostic{
          DiagnosticSeverity::error, "unfinished_collective", ranks.front(), call.created,
          fmt::format("{} called {} ({}){}, and it has not ended: {}.",
                      capitalised(rank_list(ranks)), name, sizes_of(call), at_site(call),
                      members_known_
                          ? "every member has called it, so look at the network and at what each "
                            "rank's device does"
                          : "no dump lists the members of this group, so others of whom there is "
                            "no dump may not have called it")};
    }
    return ImportedDiagnostic{
        DiagnosticSeverity::error, "missing_rank", absent_.front(), call.created,
        fmt::format("{} left no dump, and {} ({}) has not ended for {}, who called it{}: most "
                    "likely {} never did.",
                    capitalised(rank_list(absent_)), name, sizes_of(call), rank_list(ranks),
                    at_site(call), rank_list(absent_))};
  }

  std::optional<ImportedDiagnostic> no_dump() const {
    if (calls_.empty()) return {};
    const auto& [sequence, calls] = *calls_.rbegin();
    const FlightCall& call = first_of(calls);
    return ImportedDiagnostic{
        DiagnosticSeverity::warning, "missing_rank", absent_.front(), call.created,
        fmt::format("{} left no dump; the last collective that the others called is {} ({}){}.",
                    capitalised(rank_list(absent_)), name_of(sequence, call), sizes_of(call),
                    at_site(call))};
  }

  const FlightGroup& group_;
  std::vector<Rank> present_, absent_;
  bool members_known_ = false;  // all of them
  std::map<std::int64_t, Calls> calls_;
};

}  // namespace

std::vector<ImportedDiagnostic> findings_of(const FlightDumps& dumps) {
  std::vector<ImportedDiagnostic> findings;
  for (const auto& [name, group] : dumps.groups) {
    if (auto found = GroupFindings(dumps, group).find()) findings.push_back(std::move(*found));
  }
  std::stable_sort(findings.begin(), findings.end(),
                   [](const auto& a, const auto& b) { return a.time < b.time; });
  // After a hang there may be one for each of a thousand groups.
  constexpr std::size_t findings_max = 100;
  if (findings.size() > findings_max) findings.resize(findings_max);
  return findings;
}

}  // namespace tessera::exchange
