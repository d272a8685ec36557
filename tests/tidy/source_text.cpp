// SPDX-License-Identifier: Apache-2.0
#include "tests/tidy/source_text.h"

#include <algorithm>
#include <cctype>

namespace tidy {
namespace {

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

/// Walks over C++ text and tells code, comments and literals apart.
class Scanner {
 public:
  explicit Scanner(std::string_view text) : text_(text), kinds_(text.size(), 'c') {
    while (at_ < text_.size()) step();
  }

  /// One letter per character: 'c' code, '/' comment, '"' inside a string, '\'' inside a character.
  const std::string& kinds() const { return kinds_; }

 private:
  bool next_is(std::string_view word) const { return text_.substr(at_, word.size()) == word; }

  void take_until(std::size_t end, char kind) {
    end = std::min(end, text_.size());
    std::fill(kinds_.begin() + static_cast<std::ptrdiff_t>(at_),
              kinds_.begin() + static_cast<std::ptrdiff_t>(end), kind);
    at_ = end;
  }

  std::size_t find_end(std::string_view word) const {
    const std::size_t found = text_.find(word, at_);
    return found == std::string_view::npos ? text_.size() : found;
  }

  void quoted(char quote) {
    ++at_;
    std::size_t end = at_;
    while (end < text_.size() && text_[end] != quote && text_[end] != '\n') {
      end += text_[end] == '\\' ? 2 : 1;
    }
    take_until(end, quote);
    ++at_;
  }

  void raw_string() {
    at_ += 2;  // R"
    const std::string_view delimiter = text_.substr(at_, find_end("(") - at_);
    take_until(find_end(")" + std::string(delimiter) + "\"") + delimiter.size() + 1, '"');
    ++at_;
  }

  void step() {
    const bool inside_word = at_ > 0 && is_word(text_[at_ - 1]);
    if (next_is("//")) {
      take_until(find_end("\n"), '/');
    } else if (next_is("/*")) {
      take_until(find_end("*/") + 2, '/');
    } else if (next_is("R\"") && !inside_word) {
      raw_string();
    } else if (text_[at_] == '"') {
      quoted('"');
    } else if (text_[at_] == '\'' && !inside_word) {  // inside a word: 1'000'000
      quoted('\'');
    } else {
      ++at_;
    }
  }

  std::string_view text_;
  std::string kinds_;
  std::size_t at_ = 0;
};

std::string blanked(std::string_view text, std::string_view kinds_to_blank) {
  const Scanner scanner(text);
  std::string result(text);
  for (std::size_t i = 0; i < result.size(); ++i) {
    const bool blank = kinds_to_blank.find(scanner.kinds()[i]) != std::string_view::npos;
    if (blank && result[i] != '\n') result[i] = ' ';
  }
  return result;
}

}  // namespace

std::string without_comments(std::string_view text) { return blanked(text, "/"); }

std::string without_comments_and_literals(std::string_view text) { return blanked(text, "/\"'"); }

std::string without_directives(std::string text) {
  bool in_directive = false;
  bool at_line_start = true;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\n') {
      in_directive = in_directive && i > 0 && text[i - 1] == '\\';
      at_line_start = true;
      continue;
    }
    if (at_line_start && text[i] == '#') in_directive = true;
    if (text[i] != ' ') at_line_start = false;
    const bool continues = text[i] == '\\' && i + 1 < text.size() && text[i + 1] == '\n';
    if (in_directive && !continues) text[i] = ' ';
  }
  return text;
}

std::vector<std::string> string_literals(std::string_view text) {
  const Scanner scanner(text);
  const std::string& kinds = scanner.kinds();
  std::vector<std::string> result;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (kinds[i] != '"') continue;
    if (i == 0 || kinds[i - 1] != '"') result.emplace_back();
    result.back() += text[i];
  }
  return result;
}

std::vector<std::string> lines_of(std::string_view text) {
  std::vector<std::string> result;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    result.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return result;
}

int line_at(std::string_view text, std::size_t position) {
  const std::string_view before = text.substr(0, position);
  return 1 + static_cast<int>(std::count(before.begin(), before.end(), '\n'));
}

}  // namespace tidy
