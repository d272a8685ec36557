// SPDX-License-Identifier: Apache-2.0
#include "tessera/analysis/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace tessera::analysis {
namespace {

struct Unit {
  double ns;
  const char* name;
};

// Ascending; each is used up to 999.5 of it.
constexpr std::array units = {Unit{1, "ns"},  Unit{1e3, "µs"},   Unit{1e6, "ms"},
                              Unit{1e9, "s"}, Unit{6e10, "min"}, Unit{3.6e12, "h"}};

}  // namespace

std::string time_text(Time ns) {
  std::size_t k = 0;
  double value = static_cast<double>(ns);
  while (k + 1 < units.size() && std::abs(value) >= 999.5) {
    value = static_cast<double>(ns) / units[++k].ns;
  }
  const double size = std::abs(value);
  const int decimals = size >= 99.95 || value == 0 || k == 0 ? 0 : size >= 9.995 ? 1 : 2;
  return with_separators(fmt::format("{:.{}f}", value, decimals)) + " " + units[k].name;
}

std::string moment_text(Time time, Time range) {
  constexpr int most_decimals = 3;
  std::size_t k = 3;  // s: minutes have no decimals that people read
  const auto decimals = [&] {
    int digits = 0;
    auto finest = static_cast<double>(std::max<Time>(range, 1));  // hundredths
    for (; units[k].ns > 1 && finest < 100 * units[k].ns; finest *= 10) ++digits;
    return digits;
  };
  while (k > 0 &&
         (decimals() > most_decimals || units[k].ns > std::abs(static_cast<double>(time)))) {
    --k;
  }
  const double value = static_cast<double>(time) / units[k].ns;
  return with_separators(fmt::format("{:.{}f}", value, std::min(decimals(), most_decimals))) + " " +
         units[k].name;
}

std::string with_separators(std::int64_t value) { return with_separators(std::to_string(value)); }

std::string with_separators(std::string number) {
  const std::size_t first = number.starts_with('-') ? 1 : 0;
  for (std::size_t at = std::min(number.find('.'), number.size()); at > first + 3;) {
    number.insert(at -= 3, ",");
  }
  return number;
}

}  // namespace tessera::analysis
