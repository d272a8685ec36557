// SPDX-License-Identifier: Apache-2.0
#include "cli/options/checks.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>

namespace tessera::cli {

CLI::Validator within(double least, double most) {
  const auto limit = [](double value) {
    return value == std::floor(value) ? fmt::format("{:.0f}", value) : fmt::format("{}", value);
  };
  const std::string range = fmt::format("{} to {}", limit(least), limit(most));
  const auto check = [least, most, range](std::string& text) -> std::string {
    double value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    const bool number = error == std::errc{} && end == text.data() + text.size();
    if (number && value >= least && value <= most) return "";
    return fmt::format("'{}' is {}, choose {}", text, number ? "out of range" : "no number", range);
  };
  return CLI::Validator(check, range);
}

Status check_acting(const CLI::App& command, const std::vector<ConditionalFlag>& flags) {
  for (const ConditionalFlag& one : flags) {
    if (one.acts || command.count(one.flag) == 0) continue;
    return Status(Code::invalid_argument,
                  fmt::format("{} means nothing {}: leave it out", one.flag, one.otherwise));
  }
  return {};
}

}  // namespace tessera::cli
