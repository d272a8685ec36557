// SPDX-License-Identifier: Apache-2.0
// How process groups are an option: a string per group, "0 1 2".
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <charconv>

#include "engine/options/option_list.h"
#include "tessera/rank_set.h"

namespace tessera {

template <>
struct OptionForm<RankGroups> {
  static void describe(Option& about) { about.kind = OptionKind::list; }
  static OptionValue get(const RankGroups& groups, const Option&) {
    std::vector<std::string> all;
    for (Index g = 0; g < groups.group_count(); ++g) {
      std::vector<Rank> ranks;
      for (Index i = 0; i < groups.group_size(g); ++i) ranks.push_back(groups.member(g, i));
      all.push_back(fmt::format("{}", fmt::join(ranks, " ")));
    }
    return all;
  }
  static Result<std::vector<Rank>> parse(const std::string& text) {
    std::vector<Rank> ranks;
    for (const char* at = text.data(); at != text.data() + text.size();) {
      Rank rank = 0;
      const auto [end, error] = std::from_chars(at, text.data() + text.size(), rank);
      if (error != std::errc{}) {
        return Status(Code::invalid_argument,
                      fmt::format("'{}' is no process group: give ranks such as '0 1 2'", text));
      }
      ranks.push_back(rank);
      at = end == text.data() + text.size() ? end : end + 1;
    }
    return ranks;
  }
  static Status set(RankGroups& groups, const OptionValue& given, const Option&) {
    std::vector<std::vector<Rank>> all;
    for (const std::string& text : std::get<std::vector<std::string>>(given)) {
      TESSERA_ASSIGN(std::vector<Rank> ranks, parse(text));
      all.push_back(std::move(ranks));
    }
    TESSERA_ASSIGN(groups, RankGroups::of(std::move(all)));
    return {};
  }
};

/// How schemes offer groups of consecutive ranks, and any groups.
inline Option consecutive_groups(const char* name, const char* help) {
  return {.name = name,
          .help = help,
          .more = "groups train on their own",
          .unit = "ranks",
          .most = 1048576};
}
inline Option any_groups(const char* name) {
  return {.name = name,
          .help = "Instead, any groups of one size, each as '0 2 4'",
          .more = "ranks that are in none do nothing",
          .unset = "none"};
}

}  // namespace tessera
