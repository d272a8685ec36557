// SPDX-License-Identifier: Apache-2.0
#include "exchange/import/file_rank.h"

#include <charconv>

namespace tessera::exchange {
namespace {

constexpr std::string_view decimal_digits = "0123456789";

Rank number_in(std::string_view text) {
  Rank rank = -1;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), rank);
  return read.ec == std::errc() && rank >= 0 ? rank : -1;
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
  // An extension may follow, and numbers in extensions are no ranks ("dump_7.mp4").
  const std::string_view stem = name.substr(0, name.find('.') == 0 ? name.size() : name.find('.'));
  const std::string_view part =
      stem.find_first_of(decimal_digits) == std::string_view::npos ? name : stem;
  const std::size_t last = part.find_last_of(decimal_digits);
  if (last == std::string_view::npos) return -1;
  const std::size_t before = part.find_last_not_of(decimal_digits, last);
  return number_in(part.substr(before == std::string_view::npos ? 0 : before + 1));
}

}  // namespace tessera::exchange
