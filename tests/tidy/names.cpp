// SPDX-License-Identifier: Apache-2.0
// The naming rules of .clang-tidy as far as text shows them; the preset `tidy` asks a compiler.
// Members are found by their indentation, which clang-format keeps.
#include <regex>
#include <string_view>
#include <utility>

#include "tests/tidy/rules.h"
#include "tests/tidy/source_text.h"

namespace tidy {
namespace {

/// Names there are those of CUDA or of the C interface.
const std::vector<std::string> foreign = {"c/include/", "engine/backends/cuda/module/",
                                          "tests/training/kernels/emulator/"};

struct NameRule {
  const char* pattern;  // its first group is the name
  const char* message;
};

void check_patterns(const SourceFile& file, const std::string& code, Findings& findings) {
  static const NameRule rules[] = {
      {R"(\b(?:class|struct|union|enum)\s+(?!class\b|tessera_)([a-z]\w*|\w*_\w*))"
       R"(\s*(?:final\s*)?[{:;])",
       "types are CamelCase"},
      {R"(\busing\s+(?!(?:type|is_transparent)\b)([a-z]\w*|\w*_\w*)\s*=)",
       "names of types are CamelCase"},
      {R"((?:^|[^\w:.>])((?!nccl|cu|gl|inflate|uInt|testRunStarting)[a-z][a-z0-9]*[A-Z]\w*))",
       "functions and variables are snake_case"},
  };
  for (const NameRule& rule : rules) {
    const std::regex pattern(rule.pattern);
    for (std::sregex_iterator match(code.begin(), code.end(), pattern), end; match != end;
         ++match) {
      const int line = line_at(code, static_cast<std::size_t>(match->position(1)));
      findings.push_back({file.path, line, "'" + (*match)[1].str() + "': " + rule.message});
    }
  }
}

/// Members that are declared behind `private:` or `protected:` end in an underscore.
class MemberScanner {
 public:
  /// The name of the member that `line` declares without its underscore, or "".
  std::string next(const std::string& line) {
    static const std::regex label(R"(( *) (public|protected|private):)");
    const std::size_t indent = line.find_first_not_of(' ');
    if (indent == std::string::npos) return "";
    const char before = std::exchange(last_, line[line.find_last_not_of(' ')]);
    std::smatch match;
    if (std::regex_match(line, match, label)) {
      hidden_ = match[2] != "public";
      members_ = match[1].length() + 2;
      return "";
    }
    if (hidden_ && static_cast<std::ptrdiff_t>(indent) + 2 <= members_) hidden_ = false;
    const bool begins = std::string_view(";{}:").find(before) != std::string_view::npos;
    if (!hidden_ || !begins || static_cast<std::ptrdiff_t>(indent) != members_) return "";
    return member(line);
  }

 private:
  static std::string member(const std::string& line) {
    static const std::regex other(R"(^\s*(using|friend|static|struct|class|enum|template|\}))");
    static const std::regex data(R"(^.*?(\w+)(?:\[[^\]]*\])*\s*(?:=[^=].*|\{.*\})?;\s*$)");
    std::smatch match;
    if (line.find('(') != std::string::npos || std::regex_search(line, other)) return "";
    if (!std::regex_match(line, match, data) || match[1].str().ends_with('_')) return "";
    return match[1];
  }

  bool hidden_ = false;
  std::ptrdiff_t members_ = 0;
  char last_ = ';';
};

}  // namespace

Findings check_names(const SourceFile& file) {
  Findings findings;
  for (const std::string& folder : foreign) {
    if (file.in(folder)) return findings;
  }
  const std::string code = without_directives(without_comments_and_literals(file.text));
  check_patterns(file, code, findings);
  MemberScanner members;
  int line = 0;
  for (const std::string& text : lines_of(code)) {
    ++line;
    const std::string name = members.next(text);
    if (name.empty()) continue;
    findings.push_back({file.path, line, "'" + name + "': members that are hidden end in _"});
  }
  return findings;
}

}  // namespace tidy
