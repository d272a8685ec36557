// SPDX-License-Identifier: Apache-2.0
#include <map>
#include <regex>
#include <set>

#include "tests/tidy/rules.h"
#include "tests/tidy/source_text.h"

namespace tidy {
namespace {

/// Words of a CMakeLists.txt, comments left out.
std::set<std::string> words_of_cmake(const std::string& text) {
  std::set<std::string> words;
  static const std::regex word(R"re([^\s()"]+)re");
  for (const std::string& line : lines_of(text)) {
    const std::string code = line.substr(0, line.find('#'));
    for (std::sregex_iterator match(code.begin(), code.end(), word), end; match != end; ++match) {
      words.insert(match->str());
    }
  }
  return words;
}

using Lists = std::map<std::string, std::set<std::string>>;  // folder with slash -> words

bool listed(const std::string& path, const Lists& lists) {
  for (std::size_t slash = path.rfind('/'); slash != std::string::npos && slash > 0;
       slash = path.rfind('/', slash - 1)) {
    const auto list = lists.find(path.substr(0, slash + 1));
    if (list != lists.end() && list->second.contains(path.substr(slash + 1))) return true;
  }
  return false;
}

void add_includes(const SourceFile& file, std::set<std::string>& included) {
  static const std::regex include(R"re(#\s*include\s*"([^"]+)")re");
  const std::string code = without_comments(file.text);
  for (std::sregex_iterator match(code.begin(), code.end(), include), end; match != end; ++match) {
    included.insert((*match)[1]);
    included.insert(file.path.substr(0, file.path.rfind('/') + 1) + (*match)[1].str());
  }
}

}  // namespace

Findings check_listed(const std::vector<SourceFile>& tree) {
  Lists lists;
  std::set<std::string> included;
  for (const SourceFile& file : tree) {
    if (file.ends_with("/CMakeLists.txt")) {
      lists[file.path.substr(0, file.path.rfind('/') + 1)] = words_of_cmake(file.text);
    }
    if (file.is_code()) add_includes(file, included);
  }
  Findings findings;
  for (const SourceFile& file : tree) {
    if ((file.ends_with(".cpp") || file.ends_with(".cu")) && !listed(file.path, lists)) {
      findings.push_back({file.path, 0, "no CMakeLists.txt lists it: it is dead"});
    }
    if (file.ends_with(".h") && !file.is_public_header() && !included.contains(file.path)) {
      findings.push_back({file.path, 0, "nobody includes it: it is dead"});
    }
  }
  return findings;
}

}  // namespace tidy
