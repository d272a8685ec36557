// SPDX-License-Identifier: Apache-2.0
#include "exchange/parse/json_cursor.h"

#include <charconv>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

namespace tessera::exchange {
namespace {

// Exponents and numbers without end, which no profiler writes.
std::int64_t slow_decimal(std::string_view raw, int places) {
  double value = 0;
  const auto [end, error] = std::from_chars(raw.data(), raw.data() + raw.size(), value);
  if (error != std::errc() || end != raw.data() + raw.size()) return 0;
  value *= std::pow(10, places);
  constexpr double most = 9.2e18;
  if (!(value > -most)) return value < 0 ? std::numeric_limits<std::int64_t>::min() : 0;
  return value < most ? std::llround(value) : std::numeric_limits<std::int64_t>::max();
}

}  // namespace

std::string unescaped(std::string_view raw) {
  if (raw.find('\\') == std::string_view::npos) return std::string(raw);
  std::string quoted;
  quoted.reserve(raw.size() + 2);
  quoted.append("\"").append(raw).append("\"");
  const auto json = nlohmann::json::parse(quoted, nullptr, /*allow_exceptions=*/false);
  return json.is_string() ? json.get<std::string>() : std::string(raw);
}

std::int64_t decimal(std::string_view raw, int places) {
  const bool negative = raw.starts_with('-');
  constexpr std::int64_t most = 922'337'203'685'477'579;  // times ten is a number still
  std::int64_t value = 0;
  int behind = -1;  // digits behind the point
  std::size_t digits = 0;
  for (const char c : raw.substr(negative ? 1 : 0)) {
    if (c == '.' && behind < 0) {
      behind = 0;
      continue;
    }
    if (c < '0' || c > '9' || value >= most) return slow_decimal(raw, places);
    ++digits;
    if (behind >= places) continue;
    value = value * 10 + (c - '0');
    if (behind >= 0) ++behind;
  }
  if (digits == 0) return 0;
  for (int missing = places - std::max(behind, 0); missing > 0; --missing) {
    if (value >= most) return slow_decimal(raw, places);
    value *= 10;
  }
  return negative ? -value : value;
}

}  // namespace tessera::exchange
