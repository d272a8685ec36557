// SPDX-License-Identifier: Apache-2.0
#include "exchange/import/file_rank.h"

#include <algorithm>
#include <charconv>
#include <string>

namespace tessera::exchange {
namespace {

constexpr std::string_view decimal_digits = "0123456789";

Rank number_in(std::string_view text) {
  Rank rank = -1;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), rank);
  return read.ec == std::errc() && rank >= 0 ? rank : -1;
}

/// "1.0.2-chakra.0.0.4.json" says versions: three numbers or more with points between are none of
/// ranks.
std::string without_versions(std::string_view name) {
  std::string out;
  while (!name.empty()) {
    const std::size_t end = std::min(name.find_first_not_of("0123456789."), name.size());
    const std::string_view run = name.substr(0, end);
    const auto points = std::count(run.begin(), run.end(), '.');
    const auto between = points - (run.starts_with('.') ? 1 : 0) - (run.ends_with('.') ? 1 : 0);
    out += between < 2 ? run : std::string_view(".");
    name.remove_prefix(end);
    if (name.empty()) break;
    out += name.front();
    name.remove_prefix(1);
  }
  return out;
}

}  // namespace

Rank rank_of_file(std::string_view name, bool any_number) {
  const std::size_t word = name.rfind("rank");
  if (word != std::string_view::npos) {
    std::string_view behind = name.substr(word + 4);
    const std::size_t begin = behind.find_first_not_of("_-=.");
    if (begin != std::string_view::npos) behind.remove_prefix(begin);
    const Rank rank = number_in(behind);
    if (rank >= 0) return rank;
  }
  if (!any_number) return -1;
  const std::string kept = without_versions(name);
  name = kept;
  // A number between separators ("llama8b.3.et") before one within a word ("dump7.json").
  Rank whole = -1, last = -1;
  std::size_t begin = 0;
  while (begin < name.size()) {
    const std::size_t end = std::min(name.find_first_of("._-", begin), name.size());
    const std::string_view part = name.substr(begin, end - begin);
    const std::size_t digit = part.find_first_of(decimal_digits);
    const bool digits_alone = digit == 0 && part.find_first_not_of(decimal_digits) == part.npos;
    if (digits_alone) whole = number_in(part);
    // That of an extension is none ("movie.mp4").
    if (digit != part.npos && (end < name.size() || begin == 0))
      last = number_in(part.substr(digit));
    begin = end + 1;
  }
  return whole >= 0 ? whole : last;
}

}  // namespace tessera::exchange
