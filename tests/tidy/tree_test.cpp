// SPDX-License-Identifier: Apache-2.0
// The rules of rules.h, applied to this source tree.
#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <set>

#include "tests/tidy/include_table.h"
#include "tests/tidy/rules.h"
#include "tests/tidy/source_text.h"

namespace {

using tidy::Findings;
using tidy::SourceFile;

const std::vector<SourceFile>& tree() {
  static const std::vector<SourceFile> files = tidy::read_tree(TESSERA_SOURCE_DIR);
  return files;
}

const SourceFile& file(const std::string& path) {
  const auto found = std::find_if(tree().begin(), tree().end(),
                                  [&](const SourceFile& each) { return each.path == path; });
  INFO(path);
  REQUIRE(found != tree().end());
  return *found;
}

template <class Check>
void check_code(Check check) {
  Findings all;
  for (const SourceFile& file : tree()) {
    if (!file.is_code()) continue;
    const Findings found = check(file);
    all.insert(all.end(), found.begin(), found.end());
  }
  INFO(tidy::to_string(all));
  CHECK(all.empty());
}

}  // namespace

TEST_CASE("the tree that is checked is the whole tree", "[tidy]") {
  const auto has = [](const char* path) {
    return std::any_of(tree().begin(), tree().end(),
                       [&](const SourceFile& file) { return file.path == path; });
  };
  CHECK(has("engine/include/tessera/op.h"));
  CHECK(has("engine/values/status.cpp"));
  CHECK(has("tests/tidy/tree_test.cpp"));
  CHECK(has("README.md"));
}

TEST_CASE("files include only what the include table allows", "[tidy]") {
  Findings wrong;
  const tidy::IncludeTable table = tidy::read_include_table(file("docs/include-table.txt"), wrong);
  std::set<std::string> headers;
  for (const SourceFile& each : tree()) {
    if (each.is_public_header()) headers.insert(each.path);
  }
  check_code([&](const SourceFile& each) { return tidy::check_includes(each, table, headers); });
  const Findings of_table = tidy::check_include_table(table, tree());
  wrong.insert(wrong.end(), of_table.begin(), of_table.end());
  INFO(tidy::to_string(wrong));
  CHECK(wrong.empty());
}

TEST_CASE("docs/ARCHITECTURE.md shows the include table", "[tidy]") {
  const std::string shown = "```text\n" + file("docs/include-table.txt").text + "```";
  CHECK(file("docs/ARCHITECTURE.md").text.find(shown) != std::string::npos);
}

TEST_CASE("classes have at most 35 functions in 3 files, or a reason", "[tidy]") {
  std::map<std::string, std::string> reasons;
  for (const std::string& line : tidy::lines_of(file("tests/tidy/large_classes.txt").text)) {
    const std::size_t colon = line.find(": ");
    if (!line.starts_with('#') && colon != std::string::npos) {
      reasons[line.substr(0, colon)] = line.substr(colon + 2);
    }
  }
  const Findings found = tidy::check_class_sizes(tree(), reasons);
  INFO(tidy::to_string(found));
  CHECK(found.empty());
}

TEST_CASE("functions have at most 70 lines", "[tidy]") { check_code(tidy::check_function_length); }

TEST_CASE("no banned words", "[tidy]") { check_code(tidy::check_words); }

TEST_CASE("names have the form of their kind", "[tidy]") { check_code(tidy::check_names); }

TEST_CASE("files have a licence line, a form and a bounded length", "[tidy]") {
  Findings all;
  for (const SourceFile& file : tree()) {
    if (file.ends_with(".md")) continue;
    if (file.ends_with(".txt") && !file.ends_with("CMakeLists.txt")) continue;
    const Findings found = tidy::check_form(file);
    all.insert(all.end(), found.begin(), found.end());
  }
  INFO(tidy::to_string(all));
  CHECK(all.empty());
}

TEST_CASE("every source file is built and every private header is used", "[tidy]") {
  const Findings found = tidy::check_listed(tree());
  INFO(tidy::to_string(found));
  CHECK(found.empty());
}

TEST_CASE("sinks that pass a recording on pass on all of it", "[tidy]") {
  const Findings found = tidy::check_whole_sinks(file("engine/include/tessera/trace.h"), tree());
  INFO(tidy::to_string(found));
  CHECK(found.empty());
}

TEST_CASE("docs/cli.md and the program have the same options", "[tidy]") {
  const Findings found = tidy::check_cli_options(tree());
  INFO(tidy::to_string(found));
  CHECK(found.empty());
}

TEST_CASE("links in the documentation lead somewhere", "[tidy]") {
  Findings all;
  for (const SourceFile& file : tree()) {
    if (!file.ends_with(".md")) continue;
    const Findings found = tidy::check_links(
        file, [](const std::string& path) { return tidy::exists_in(TESSERA_SOURCE_DIR, path); });
    all.insert(all.end(), found.begin(), found.end());
  }
  INFO(tidy::to_string(all));
  CHECK(all.empty());
}

TEST_CASE("manuals show the programs that tests build, as they are", "[tidy]") {
  const std::vector<std::pair<std::string, std::string>> shown_in = {
      {"README.md", "tests/package/consumer/main.cpp"},
      {"docs/embedding.md", "examples/own_loop.cpp"}};
  for (const auto& [manual, program] : shown_in) {
    INFO(manual << " and " << program);
    std::string text;
    std::string code;
    for (const SourceFile& file : tree()) {
      if (file.path == manual) text = file.text;
      if (file.path == program) code = file.text;
    }
    const std::string shown = code.substr(code.find('\n') + 1);  // without the licence line
    REQUIRE(shown.size() > 100);
    CHECK(text.find("```cpp\n" + shown + "```") != std::string::npos);
  }
}
