// SPDX-License-Identifier: Apache-2.0
// The heuristic: outside of functions, a `{` whose head (the text since the last `;`, `{` or `}`)
// has parentheses and does not declare a type or a namespace opens a function. Everything up to
// its `}` belongs to it, lambdas and local classes included.
#include <algorithm>
#include <regex>

#include "tests/tidy/rules.h"
#include "tests/tidy/source_text.h"

namespace tidy {
namespace {

constexpr int function_lines_max = 70;

bool opens_function(const std::string& head) {
  static const std::regex scope(R"(^(template\s*<[^{]*>\s*)?(inline\s+)?)"
                                R"((namespace|class|struct|union|enum|extern)\b[^()]*$)");
  return head.find('(') != std::string::npos && !std::regex_search(head, scope);
}

class FunctionScanner {
 public:
  explicit FunctionScanner(const SourceFile& file)
      : path_(file.path), text_(without_directives(without_comments_and_literals(file.text))) {}

  Findings scan() {
    for (std::size_t i = 0; i < text_.size(); ++i) {
      if (text_[i] == '{') open(i);
      if (text_[i] == '}') close(i);
      if (text_[i] == ';') head_ = i + 1;
    }
    return std::move(findings_);
  }

 private:
  struct Brace {
    bool is_function = false;
    std::size_t head = 0;
  };

  void open(std::size_t at) {
    const std::size_t head = std::min(text_.find_first_not_of(" \n", head_), at);
    const bool is_function = !inside_ && opens_function(text_.substr(head, at - head));
    inside_ = inside_ || is_function;
    open_.push_back({is_function, head});
    head_ = at + 1;
  }

  void close(std::size_t at) {
    head_ = at + 1;
    if (open_.empty()) return;
    const Brace brace = open_.back();
    open_.pop_back();
    if (!brace.is_function) return;
    inside_ = false;
    const std::size_t next = text_.find_first_not_of(" \n", at + 1);
    const char follows = next == std::string::npos ? '\n' : text_[next];
    // `C() : a_{1}, b_{2} {`: what closed was a member initialiser, the function is yet to come.
    if (follows == ',' || follows == '{') head_ = brace.head;
    measure(brace.head, at);
  }

  void measure(std::size_t begin, std::size_t end) {
    const int first = line_at(text_, begin);
    const int lines = line_at(text_, end) - first + 1;
    if (lines <= function_lines_max) return;
    findings_.push_back({path_, first,
                         "a function of " + std::to_string(lines) + " lines; the limit is " +
                             std::to_string(function_lines_max) + ", split it"});
  }

  std::string path_;
  std::string text_;
  Findings findings_;
  std::vector<Brace> open_;
  bool inside_ = false;   // of a function
  std::size_t head_ = 0;  // where the text before the next brace begins
};

}  // namespace

Findings check_function_length(const SourceFile& file) { return FunctionScanner(file).scan(); }

}  // namespace tidy
