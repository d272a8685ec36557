// SPDX-License-Identifier: Apache-2.0
#include "cli/options/checks.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <cstdint>

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

CLI::Validator any_uint64() {
  static constexpr const char* range = "0 to 18446744073709551615";
  const auto check = [](std::string& text) -> std::string {
    std::uint64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error == std::errc{} && end == text.data() + text.size()) return "";
    const std::size_t sign = text.starts_with('-') ? 1 : 0;
    const bool whole =
        text.size() > sign && text.find_first_not_of("0123456789", sign) == std::string::npos;
    return fmt::format("'{}' is {}, choose {}", text, whole ? "out of range" : "no whole number",
                       range);
  };
  return CLI::Validator(check, range);
}

Status check_not_empty(const CLI::App& command) {
  for (const CLI::Option* option : command.get_options()) {
    if (option->count() == 0 || option->get_items_expected_max() == 0) continue;
    for (const std::string& value : option->results()) {
      if (!value.empty()) continue;
      return Status(Code::invalid_argument,
                    fmt::format("{} is given nothing, which would be as if it were left out: name "
                                "something, or leave it out",
                                option->get_name()));
    }
  }
  return {};
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
