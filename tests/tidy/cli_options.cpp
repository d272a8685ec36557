// SPDX-License-Identifier: Apache-2.0
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

}  // namespace

Findings check_cli_options(const std::vector<SourceFile>& tree) {
  std::set<std::string> offered;
  std::set<std::string> documented;
  for (const SourceFile& file : tree) {
    if (file.path == "docs/cli.md") add_options(file.text, documented);
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
    if (!offered.contains(option) && option != "--help" && option != "--version") {
      findings.push_back(
          {"docs/cli.md", 0, option + " is documented but no source in cli/ has it"});
    }
  }
  return findings;
}

}  // namespace tidy
