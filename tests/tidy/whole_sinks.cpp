// SPDX-License-Identifier: Apache-2.0
// The heuristic: a file that overrides the interface's `begin` with a body that is not empty keeps
// a recording or passes it on, so it must not leave any call to an empty default. `defer` has one
// that works for all.
#include <regex>
#include <set>

#include "tests/tidy/rules.h"
#include "tests/tidy/source_text.h"

namespace tidy {
namespace {

std::set<std::string> names_in(const std::string& text, const std::regex& pattern) {
  std::set<std::string> names;
  for (std::sregex_iterator at(text.begin(), text.end(), pattern), end; at != end; ++at) {
    names.insert((*at)[1].str());
  }
  return names;
}

}  // namespace

Findings check_whole_sinks(const SourceFile& interface, const std::vector<SourceFile>& tree) {
  static const std::regex declared(R"(virtual\s+void\s+(\w+)\s*\()");
  static const std::regex overridden(R"(void\s+(\w+)\s*\([^)]*\)\s*override\b)");
  static const std::regex keeps(
      R"(void\s+begin\s*\([^)]*TraceRun[^)]*\)\s*override\s*(;|\{\s*[^}\s]))");
  std::set<std::string> calls = names_in(without_comments(interface.text), declared);
  calls.erase("defer");
  Findings findings;
  for (const SourceFile& file : tree) {
    if (!file.is_code() || file.in("tests/")) continue;
    const std::string text = without_comments(file.text);
    if (!std::regex_search(text, keeps)) continue;
    const std::set<std::string> own = names_in(text, overridden);
    for (const std::string& call : calls) {
      if (own.contains(call)) continue;
      findings.push_back({file.path, 0,
                          "a sink that keeps what it is told or passes it on loses the call " +
                              call + ": override it"});
    }
  }
  if (calls.size() < 2) findings.push_back({interface.path, 0, "no calls of a sink were found"});
  return findings;
}

}  // namespace tidy
