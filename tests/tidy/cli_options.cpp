// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <regex>
#include <set>

#include "tests/tidy/rules.h"
#include "tests/tidy/source_text.h"

namespace tidy {
namespace {

void add_options(const std::string& text, std::set<std::string>& options) {
  static const std::regex option(R"((^|[^-\w])(--[a-z][a-z0-9-]*))");
  for (std::sregex_iterator match(text.begin(), text.end(), option), end; match != end; ++match) {
    options.insert((*match)[2]);
  }
}

// Flags that follow from the names in lists of options; tests/options compares the manual with
// them.
void add_listed(const std::string& text, std::set<std::string>& options) {
  static const std::regex name(R"([a-z][a-z0-9_]*)");
  for (const std::string& literal : string_literals(text)) {
    if (!std::regex_match(literal, name)) continue;
    std::string flag = literal;
    std::replace(flag.begin(), flag.end(), '_', '-');
    options.insert("--" + flag);
    options.insert("--no-" + flag);
  }
}

}  // namespace

Findings check_cli_options(const std::vector<SourceFile>& tree) {
  std::set<std::string> offered;
  std::set<std::string> documented;
  std::set<std::string> listed = {"--help", "--version"};
  for (const SourceFile& file : tree) {
    if (file.path == "docs/cli.md") add_options(file.text, documented);
    if (file.in("engine/") && file.path.ends_with("/options.cpp")) {
      add_listed(file.text, listed);
      for (const std::string& literal : string_literals(file.text)) add_options(literal, listed);
    }
    if (file.path == "cli/options/scheme_options.cpp") add_listed(file.text, listed);
    if (!file.in("cli/") || !file.is_code()) continue;
    for (const std::string& literal : string_literals(file.text)) add_options(literal, offered);
  }
  Findings findings;
  for (const std::string& option : offered) {
    if (!documented.contains(option)) {
      findings.push_back({"docs/cli.md", 0, option + " is not documented"});
    }
  }
  for (const std::string& option : documented) {
    if (!offered.contains(option) && !listed.contains(option)) {
      findings.push_back(
          {"docs/cli.md", 0, option + " is documented but no source in cli/ has it"});
    }
  }
  return findings;
}

}  // namespace tidy
