// SPDX-License-Identifier: Apache-2.0
#include <regex>

#include "tests/tidy/rules.h"
#include "tests/tidy/source_text.h"

namespace tidy {
namespace {

/// "docs/decisions/" + "../cli.md" -> "docs/cli.md"
std::string resolve(std::string folder, std::string target) {
  while (target.starts_with("../")) {
    target.erase(0, 3);
    if (!folder.empty()) folder.pop_back();
    folder.erase(folder.find_last_of('/') == std::string::npos ? 0 : folder.find_last_of('/') + 1);
  }
  return folder + target;
}

}  // namespace

Findings check_links(const SourceFile& file,
                     const std::function<bool(const std::string&)>& exists) {
  Findings findings;
  static const std::regex link(R"(\]\(([^)#\s]+)(#[^)]*)?\))");
  const std::string folder = file.path.substr(0, file.path.find_last_of('/') + 1);
  for (std::sregex_iterator match(file.text.begin(), file.text.end(), link), end; match != end;
       ++match) {
    const std::string target = (*match)[1];
    if (target.find("://") != std::string::npos || exists(resolve(folder, target))) continue;
    findings.push_back({file.path, line_at(file.text, static_cast<std::size_t>(match->position())),
                        "the link to " + target + " leads nowhere"});
  }
  return findings;
}

}  // namespace tidy
