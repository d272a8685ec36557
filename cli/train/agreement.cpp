// SPDX-License-Identifier: Apache-2.0
#include "cli/train/agreement.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <sstream>
#include <string_view>
#include <system_error>

namespace tessera::cli {
namespace {

constexpr std::size_t named = 16;  // differences in one sentence

/// Lines separate facts.
std::string on_one_line(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

std::map<std::string, std::string> facts_in(const std::string& text) {
  std::map<std::string, std::string> facts;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t tab = line.find('\t');
    facts[line.substr(0, tab)] = tab == std::string::npos ? "" : line.substr(tab + 1);
  }
  return facts;
}

bool is_digits(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

// 1e-3 is 0.001. Whole numbers stay texts: doubles do not tell large ones apart.
bool is_same(const std::string& a, const std::string& b) {
  if (a == b || (is_digits(a) && is_digits(b))) return a == b;
  const auto number = [](const std::string& text) -> std::optional<double> {
    double value = 0;
    const char* const end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, value);
    return error == std::errc() && stop == end ? std::optional(value) : std::nullopt;
  };
  const auto left = number(a);
  return left && left == number(b);
}

// The first rank that differs from rank 0 in each fact.
std::vector<std::string> sentences_of(const std::vector<std::string>& texts) {
  std::map<std::string, std::string> found;
  for (std::size_t r = 1; r < texts.size(); ++r) {
    for (const Difference& one : differences(texts[0], texts[r])) {
      found.try_emplace(one.name, fmt::format("{} is {} on rank 0, but {} on rank {}", one.name,
                                              one.here, one.there, r));
    }
  }
  std::vector<std::string> sentences;
  for (const auto& [name, sentence] : found) sentences.push_back(sentence);
  return sentences;
}

}  // namespace

std::string facts_text(const Facts& facts) {
  std::string text;
  for (const auto& [name, value] : facts) text += name + "\t" + on_one_line(value) + "\n";
  return text;
}

std::vector<Difference> differences(const std::string& here, const std::string& there) {
  const auto first = facts_in(here), other = facts_in(there);
  auto names = first;
  names.insert(other.begin(), other.end());
  std::vector<Difference> found;
  for (const auto& [name, unused] : names) {
    const auto value = [&, &key = name](const auto& facts) {
      const auto at = facts.find(key);
      return at == facts.end() ? std::string("unknown") : at->second;
    };
    if (!is_same(value(first), value(other))) found.push_back({name, value(first), value(other)});
  }
  return found;
}

Status agree(ProcessRuntime& runtime, const Facts& facts) {
  TESSERA_ASSIGN(const std::vector<std::string> texts, runtime.exchange(facts_text(facts)));
  std::vector<std::string> found = sentences_of(texts);
  if (found.empty()) return {};
  const std::size_t more = found.size() - std::min(found.size(), named);
  found.resize(found.size() - more);
  return Status(
      Code::invalid_argument,
      fmt::format("ranks disagree before the first step: {}{}; start all ranks with the "
                  "same options and data",
                  fmt::join(found, "; "), more > 0 ? fmt::format("; and {} more", more) : ""));
}

}  // namespace tessera::cli
