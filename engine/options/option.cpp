// SPDX-License-Identifier: Apache-2.0
#include "tessera/option.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "tessera/assert.h"

namespace tessera {
namespace {

// Short names of dtypes, which all words of options may have.
constexpr std::array<std::pair<std::string_view, std::string_view>, 3> short_words = {
    {{"fp32", "float32"}, {"bf16", "bfloat16"}, {"fp16", "float16"}}};

struct Text {
  std::string operator()(bool value) const { return value ? "true" : "false"; }
  std::string operator()(std::int64_t value) const { return std::to_string(value); }
  std::string operator()(double value) const { return fmt::format("{}", value); }
  std::string operator()(const std::string& value) const { return value; }
  std::string operator()(const std::vector<std::string>& value) const {
    return fmt::format("{}", fmt::join(value, ","));
  }
};

std::string limit(double value) {
  return value == std::floor(value) ? fmt::format("{:.0f}", value) : fmt::format("{}", value);
}

// "choose 1 to 8, or auto"
std::string choice(const Option& option) {
  std::string text;
  switch (option.kind) {
    case OptionKind::flag: text = "true or false"; break;
    case OptionKind::integer:
    case OptionKind::number:
      text = option.most < 9.2e18 ? fmt::format("{} to {}", limit(option.least), limit(option.most))
                                  : fmt::format("{} or more", limit(option.least));
      break;
    case OptionKind::word: text = fmt::format("{}", fmt::join(option.words, ", ")); break;
    case OptionKind::text: text = "a text"; break;
    case OptionKind::list: text = "a list of strings"; break;
  }
  if (!option.unset.empty()) text += ", or " + option.unset;
  return text;
}

Status refusal(const Option& option, const OptionValue& value, const std::string& name,
               const char* why) {
  return Status(Code::invalid_argument, fmt::format("{}: '{}' is {}, choose {}", name,
                                                    to_text(value), why, choice(option)));
}

bool within(const Option& option, double value) {
  return value >= option.least && value <= option.most;
}

template <class Number>
bool parse_number(std::string_view text, Number& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc{} && end == text.data() + text.size();
}

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> parts;
  for (std::size_t first = 0; !text.empty() && first <= text.size();) {
    const std::size_t end = std::min(text.find(',', first), text.size());
    parts.push_back(text.substr(first, end - first));
    first = end + 1;
  }
  return parts;
}

Result<OptionValue> checked_number(const Option& option, const OptionValue& value,
                                   const std::string& name) {
  const auto* const whole = std::get_if<std::int64_t>(&value);
  const auto* const real = std::get_if<double>(&value);
  if (whole == nullptr && (real == nullptr || option.kind == OptionKind::integer)) {
    return refusal(option, value, name, real == nullptr ? "no number" : "no whole number");
  }
  const double number = whole != nullptr ? static_cast<double>(*whole) : *real;
  if (!within(option, number)) return refusal(option, value, name, "out of range");
  return option.kind == OptionKind::number ? OptionValue(number) : value;
}

Result<OptionValue> checked_word(const Option& option, const OptionValue& value,
                                 const std::string& name) {
  const auto* const given = std::get_if<std::string>(&value);
  if (given == nullptr) return refusal(option, value, name, "no word");
  std::string_view word = *given;
  const auto known = [&] {
    return std::find(option.words.begin(), option.words.end(), word) != option.words.end();
  };
  for (const auto& [brief, full] : short_words) {
    if (*given == brief && !known()) word = full;
  }
  if (!known()) return refusal(option, value, name, "unknown");
  return OptionValue(std::string(word));
}

bool holds(const OptionValues& values, const OptionNeed& need) {
  return std::any_of(values.begin(), values.end(), [&](const auto& entry) {
    const auto& [name, value] = entry;
    return name == need.option &&
           std::find(need.words.begin(), need.words.end(), to_text(value)) != need.words.end();
  });
}

const Option& option_named(const std::vector<Option>& known, std::string_view name) {
  const auto found = std::find_if(known.begin(), known.end(),
                                  [&](const Option& option) { return option.name == name; });
  TESSERA_ASSERT(found != known.end(), "needs and given options are among those that are known");
  return *found;
}

std::string spelled(const Option& option, OptionSpelling spelling) {
  return spelling == OptionSpelling::flags ? flag_of(option) : option.name;
}

// "--reshard-after-forward to_group", "--quantized-gradients"
std::string wanted(const Option& option, const OptionNeed& need, OptionSpelling spelling) {
  if (option.kind == OptionKind::flag) return spelled(option, spelling);
  return fmt::format("{} {}", spelled(option, spelling), fmt::join(need.words, " or "));
}

}  // namespace

std::string flag_of(const Option& option) {
  if (!option.flag.empty()) return option.flag;
  const auto* const on = std::get_if<bool>(&option.standard);
  std::string flag = (on != nullptr && *on ? "--no-" : "--") + option.name;
  std::replace(flag.begin(), flag.end(), '_', '-');
  return flag;
}

std::string to_text(const OptionValue& value) { return std::visit(Text{}, value); }

Result<OptionValue> parse_option(const Option& option, const std::string& text) {
  const std::string flag = flag_of(option);
  if (!option.unset.empty() && text == option.unset) return OptionValue(text);
  std::int64_t whole = 0;
  double real = 0;
  switch (option.kind) {
    case OptionKind::flag: return checked_option(option, text == "true", flag);
    case OptionKind::integer:
      if (parse_number(text, whole)) return checked_option(option, whole, flag);
      if (!parse_number(text, real)) return refusal(option, text, flag, "no number");
      // Of too many digits, or with a point or an exponent.
      return refusal(
          option, text, flag,
          text.find_first_not_of("-0123456789") == text.npos ? "out of range" : "no whole number");
    case OptionKind::number:
      if (parse_number(text, real)) return checked_option(option, real, flag);
      return refusal(option, text, flag, "no number");
    case OptionKind::list: return checked_option(option, split(text), flag);
    case OptionKind::word:
    case OptionKind::text: break;
  }
  return checked_option(option, text, flag);
}

Status check_needs(const std::vector<Option>& known, const OptionValues& values,
                   const std::vector<std::string>& given, const std::string& whom,
                   OptionSpelling spelling) {
  for (const std::string& name : given) {
    const Option& option = option_named(known, name);
    const bool acts = option.needs.empty() ||
                      std::any_of(option.needs.begin(), option.needs.end(),
                                  [&](const OptionNeed& need) { return holds(values, need); });
    if (acts) continue;
    std::vector<std::string> ways;
    for (const OptionNeed& need : option.needs) {
      ways.push_back(wanted(option_named(known, need.option), need, spelling));
    }
    return Status(Code::invalid_argument,
                  fmt::format("{} means nothing {}without {}: leave it out",
                              spelled(option, spelling), whom, fmt::join(ways, " or ")));
  }
  return {};
}

Result<OptionValue> checked_option(const Option& option, const OptionValue& value,
                                   const std::string& name) {
  if (!option.unset.empty() && value == OptionValue(option.unset)) return value;
  switch (option.kind) {
    case OptionKind::integer:
    case OptionKind::number: return checked_number(option, value, name);
    case OptionKind::word: return checked_word(option, value, name);
    case OptionKind::flag:
      if (std::holds_alternative<bool>(value)) return value;
      return refusal(option, value, name, "neither");
    case OptionKind::text:
      if (std::holds_alternative<std::string>(value)) return value;
      return refusal(option, value, name, "no text");
    case OptionKind::list:
      if (std::holds_alternative<std::vector<std::string>>(value)) return value;
      return refusal(option, value, name, "no list");
  }
  return value;
}

}  // namespace tessera
