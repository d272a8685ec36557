// SPDX-License-Identifier: Apache-2.0
#include "cli/options/rank_list.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <string_view>

namespace tessera::cli {
namespace {

bool parse(std::string_view text, Rank& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc{} && end == text.data() + text.size();
}

}  // namespace

Result<std::vector<Rank>> parse_rank_list(const std::string& option, const std::string& text,
                                          Rank ranks, const std::vector<Rank>& slowest) {
  const auto bad = [&](const std::string& why) {
    return Status(Code::invalid_argument, fmt::format("{} {}: {}", option, text, why));
  };
  if (text == "none") return std::vector<Rank>{};
  const std::string list = text == "all" ? fmt::format("0-{}", ranks - 1) : text;
  std::vector<Rank> out, slow;
  for (std::size_t at = 0; at <= list.size();) {
    const std::size_t comma = std::min(list.find(',', at), list.size());
    const std::string_view part = std::string_view(list).substr(at, comma - at);
    at = comma + 1;
    if (part == "slowest" && !slowest.empty() && slow.empty()) {
      slow = slowest;
      continue;
    }
    const std::size_t dash = part.find('-');
    Rank first = 0;
    Rank last = 0;
    const bool good = parse(part.substr(0, dash), first) &&
                      (dash == std::string_view::npos ? (last = first, true)
                                                      : parse(part.substr(dash + 1), last));
    if (!good || last < first) {
      return bad("give ranks and ranges such as 0-63,128, all or none");
    }
    if (last >= ranks) return bad(fmt::format("the run has only ranks 0 to {}", ranks - 1));
    for (Rank rank = first; rank <= last; ++rank) out.push_back(rank);
  }
  std::sort(out.begin(), out.end());
  const auto again = std::adjacent_find(out.begin(), out.end());
  if (again != out.end()) return bad(fmt::format("rank {} is named twice", *again));
  out.insert(out.end(), slow.begin(), slow.end());  // who may be among the others
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

}  // namespace tessera::cli
