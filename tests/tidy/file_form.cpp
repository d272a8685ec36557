// SPDX-License-Identifier: Apache-2.0
#include <regex>

#include "tests/tidy/rules.h"
#include "tests/tidy/source_text.h"

namespace tidy {
namespace {

constexpr std::size_t line_columns_max = 100;
constexpr std::size_t file_lines_max = 400;

/// Characters, not bytes: continuation bytes of UTF-8 do not count.
std::size_t columns(const std::string& line) {
  std::size_t count = 0;
  for (const char c : line) count += (static_cast<unsigned char>(c) & 0xC0U) != 0x80U ? 1 : 0;
  return count;
}

void check_lengths(const SourceFile& file, const std::vector<std::string>& lines,
                   Findings& findings) {
  if (lines.size() > file_lines_max) {
    findings.push_back({file.path, 0,
                        std::to_string(lines.size()) + " lines; the limit is " +
                            std::to_string(file_lines_max) + ", split it"});
  }
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (columns(lines[i]) > line_columns_max) {
      findings.push_back({file.path, static_cast<int>(i + 1),
                          "longer than " + std::to_string(line_columns_max) + " columns"});
    }
  }
}

void check_header(const SourceFile& file, const std::vector<std::string>& lines,
                  Findings& findings) {
  std::size_t comments = 0;  // after the licence line
  std::size_t first_code = 1;
  while (first_code < lines.size() && lines[first_code].starts_with("//")) {
    ++comments;
    ++first_code;
  }
  if (file.is_public_header() && comments < 2) {
    findings.push_back(
        {file.path, 2, "a public header begins with its purpose: two lines or more"});
  }
  if (first_code >= lines.size() || lines[first_code] != "#pragma once") {
    findings.push_back({file.path, static_cast<int>(first_code + 1),
                        "expected '#pragma once' after the opening comment"});
  }
}

}  // namespace

Findings check_form(const SourceFile& file) {
  Findings findings;
  const std::vector<std::string> lines = lines_of(file.text);
  static const std::regex licence(R"(^(//|#|--|/\*) SPDX-License-Identifier: Apache-2\.0$)");
  if (lines.empty() || !std::regex_match(lines[0], licence)) {
    findings.push_back({file.path, 1, "the first line is not the SPDX licence line"});
  }
  if (!file.is_code()) return findings;

  static const std::regex name(R"(^[a-z0-9_]+\.(h|cpp|cu)$)");
  if (!std::regex_match(file.path.substr(file.path.rfind('/') + 1), name)) {
    findings.push_back({file.path, 0, "file names are snake_case"});
  }
  const bool is_c = file.in("c/include/");
  if (file.ends_with(".h") && !is_c) check_header(file, lines, findings);
  check_lengths(file, lines, findings);
  return findings;
}

}  // namespace tidy
