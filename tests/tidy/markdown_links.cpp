// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <regex>
#include <string>

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

// Without what lies between fences: a lambda of C++ looks like a link.
std::string prose_of(std::string text) {
  bool fenced = false;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const bool fence = text.compare(at, 3, "```") == 0;
    if (fence || fenced) std::fill_n(text.begin() + static_cast<std::ptrdiff_t>(at), end - at, ' ');
    fenced = fenced != fence;
    at = end + 1;
  }
  return text;
}

}  // namespace

Findings check_links(const SourceFile& file,
                     const std::function<bool(const std::string&)>& exists) {
  Findings findings;
  static const std::regex link(R"(\]\(([^)#\s]+)(#[^)]*)?\))");
  const std::string text = prose_of(file.text);
  const std::string folder = file.path.substr(0, file.path.find_last_of('/') + 1);
  for (std::sregex_iterator match(text.begin(), text.end(), link), end; match != end; ++match) {
    const std::string target = (*match)[1];
    if (target.find("://") != std::string::npos || exists(resolve(folder, target))) continue;
    findings.push_back({file.path, line_at(file.text, static_cast<std::size_t>(match->position())),
                        "the link to " + target + " leads nowhere"});
  }
  return findings;
}

}  // namespace tidy
