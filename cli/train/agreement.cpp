// SPDX-License-Identifier: Apache-2.0
#include "cli/train/agreement.h"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>

namespace tessera::cli {
namespace {

/// Lines separate facts.
std::string on_one_line(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

std::string text_of(const Facts& facts) {
  std::string text;
  for (const auto& [name, value] : facts) text += name + "\t" + on_one_line(value) + "\n";
  return text;
}

}  // namespace

std::string first_difference(const std::string& of_first, const std::string& of_other, Rank other) {
  std::istringstream first(of_first);
  std::istringstream second(of_other);
  std::string a;
  std::string b;
  while (true) {
    const bool more_a = static_cast<bool>(std::getline(first, a));
    const bool more_b = static_cast<bool>(std::getline(second, b));
    if (!more_a && !more_b) return "";
    if (more_a && more_b && a == b) continue;
    const std::string name = (more_a ? a : b).substr(0, (more_a ? a : b).find('\t'));
    const auto value = [&](bool more, const std::string& line) {
      return more ? line.substr(line.find('\t') + 1) : std::string("unknown");
    };
    return fmt::format("{} is {} on rank 0, but {} on rank {}", name, value(more_a, a),
                       value(more_b, b), other);
  }
}

Status agree(ProcessRuntime& runtime, const Facts& facts) {
  TESSERA_ASSIGN(const std::vector<std::string> texts, runtime.exchange(text_of(facts)));
  for (std::size_t r = 1; r < texts.size(); ++r) {
    const std::string difference = first_difference(texts[0], texts[r], static_cast<Rank>(r));
    if (difference.empty()) continue;
    return Status(Code::invalid_argument,
                  fmt::format("ranks disagree before the first step: {}; start all ranks with the "
                              "same options and data",
                              difference));
  }
  return {};
}

}  // namespace tessera::cli
