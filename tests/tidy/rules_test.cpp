// SPDX-License-Identifier: Apache-2.0
// A check that cannot fail is no check: each rule is tried on good and on bad snippets.
#include "tests/tidy/rules.h"

#include <catch2/catch.hpp>
#include <map>
#include <set>

#include "tests/tidy/include_table.h"
#include "tests/tidy/source_text.h"

namespace {

using tidy::Findings;
using tidy::SourceFile;

std::size_t bad_includes(const std::string& path, const std::string& include) {
  static const std::string table =
      "# folders\n\nboth = a/include/ b/include/tessera/b.h\ntext = fmt/ nlohmann/\n\n"
      "a/include/ | | | interface\n"
      "a/low/ | a/include/ | text | low\n"
      "a/high/ | a/include/ a/low/ | fmt/ cuda | high\n"
      "a/high/roof/ | a/high/ | | roof\n"
      "b/include/ | a/include/ | | interface\n"
      "b/ | both a/low/one.h | sqlite3.h | other\n"
      "examples/ | a/include/ | | examples\n"
      "tests/ | * | * | all\n";
  static const std::set<std::string> headers = {"a/include/tessera/a.h", "b/include/tessera/b.h",
                                                "b/include/tessera/c.h"};
  Findings wrong;
  const tidy::IncludeTable rows = tidy::read_include_table({"table.txt", table}, wrong);
  REQUIRE(wrong.empty());
  return tidy::check_includes({path, "// x\n#include " + include + "\n"}, rows, headers).size();
}

std::size_t bad_table(const std::string& text) {
  Findings wrong;
  const tidy::IncludeTable table = tidy::read_include_table({"table.txt", text}, wrong);
  const std::vector<SourceFile> files = {{"a/x.h", ""}, {"b/y.h", ""}, {"c/z.h", ""}};
  return wrong.size() + tidy::check_include_table(table, files).size();
}

std::size_t large_classes(const std::string& header, int sources,
                          const std::map<std::string, std::string>& reasons = {}) {
  std::vector<SourceFile> tree = {{"a/c.h", header}};
  for (int i = 0; i < sources; ++i) {
    tree.push_back({"a/c" + std::to_string(i) + ".cpp", "void C::f" + std::to_string(i) + "() {}"});
  }
  return tidy::check_class_sizes(tree, reasons).size();
}

bool bad_word(const std::string& path, const std::string& code) {
  return !tidy::check_words({path, code}).empty();
}

std::string function_of(int lines) {
  std::string text = "int f(int x) {\n";
  for (int i = 2; i < lines; ++i) text += i == 3 ? "  if (x) { x = '{'; }\n" : "  ++x;\n";
  return text + "}\n";
}

const std::string licence = "// SPDX-License-Identifier: Apache-2.0\n";

}  // namespace

TEST_CASE("comments and literals are blanked, lines stay", "[tidy][rules]") {
  const std::string text =
      "a /* b\n c */ d // e\n\"f // g\" 'h' 1'000 R\"x(i \" j)x\" k \"\\\"l\" m\n";
  CHECK(tidy::without_comments(text) ==
        "a     \n      d     \n\"f // g\" 'h' 1'000 R\"x(i \" j)x\" k \"\\\"l\" m\n");
  CHECK(tidy::without_comments_and_literals(text) ==
        "a     \n      d     \n\"      \" ' ' 1'000 R\"         \" k \"   \" m\n");
  CHECK(tidy::string_literals("f(\"a\", /* \"b\" */ \"c\");") ==
        std::vector<std::string>{"a", "c"});
  CHECK(tidy::line_at("a\nb\nc", 4) == 3);
}

TEST_CASE("the include table forbids what is not in it", "[tidy][rules]") {
  CHECK(bad_includes("a/low/a.cpp", "<vector>") == 0);
  CHECK(bad_includes("a/low/a.cpp", "<fmt/format.h>") == 0);
  CHECK(bad_includes("a/low/a.cpp", "<nlohmann/json.hpp>") == 0);
  CHECK(bad_includes("a/low/a.cpp", "<sqlite3.h>") == 1);
  CHECK(bad_includes("a/high/a.cpp", "<nlohmann/json.hpp>") == 1);
  CHECK(bad_includes("a/high/a.cpp", "<cuda_runtime.h>") == 0);
  CHECK(bad_includes("a/low/a.cpp", "\"tessera/a.h\"") == 0);
  CHECK(bad_includes("a/low/a.cpp", "\"tessera/b.h\"") == 1);
  CHECK(bad_includes("a/low/a.cpp", "\"tessera/none.h\"") == 1);
  CHECK(bad_includes("a/low/a.cpp", "\"a/low/b.h\"") == 0);
  CHECK(bad_includes("a/low/a.cpp", "\"neighbour.h\"") == 1);
  CHECK(bad_includes("a/low/a.cpp", "\"a/high/b.h\"") == 1);
  CHECK(bad_includes("a/high/a.cpp", "\"a/low/b.h\"") == 0);
  CHECK(bad_includes("a/high/a.cpp", "\"a/high/roof/b.h\"") == 1);
  CHECK(bad_includes("a/high/roof/a.cpp", "\"a/high/b.h\"") == 0);
  CHECK(bad_includes("a/high/roof/a.cpp", "\"a/low/b.h\"") == 1);
  CHECK(bad_includes("b/inner/a.cpp", "\"tessera/b.h\"") == 0);
  CHECK(bad_includes("b/inner/a.cpp", "\"tessera/c.h\"") == 1);
  CHECK(bad_includes("b/inner/a.cpp", "\"a/low/one.h\"") == 0);
  CHECK(bad_includes("b/inner/a.cpp", "\"a/low/two.h\"") == 1);
  CHECK(bad_includes("tests/a.cpp", "\"a/high/roof/b.h\"") == 0);
  CHECK(bad_includes("tests/a.cpp", "<sqlite3.h>") == 0);
  CHECK(bad_includes("examples/one/a.cpp", "\"neighbour.h\"") == 0);
  CHECK(bad_includes("examples/one/a.cpp", "\"a/low/b.h\"") == 1);
  CHECK(bad_includes("elsewhere/a.cpp", "<vector>") == 1);
}

TEST_CASE("public headers include only public headers and the standard library", "[tidy][rules]") {
  const std::string path = "a/include/tessera/a.h";
  CHECK(bad_includes(path, "\"tessera/a.h\"") == 0);
  CHECK(bad_includes(path, "<span>") == 0);
  CHECK(bad_includes(path, "\"a/low/b.h\"") == 1);
  CHECK(bad_includes(path, "<fmt/format.h>") == 1);
}

TEST_CASE("circles, empty folders and unknown names in the include table are found",
          "[tidy][rules]") {
  CHECK(bad_table("a/ | | | x\nb/ | a/ | | x\nc/ | a/x.h b/ | | x\n") == 0);
  CHECK(bad_table("a/ | c/ | | x\nb/ | a/ | | x\nc/ | b/ | | x\n") == 1);
  CHECK(bad_table("a/ | c/z.h | | x\nc/ | a/ | | x\n") == 1);
  CHECK(bad_table("a/ | b/ | | x\n") == 1);
  CHECK(bad_table("a/ | a/none.h | | x\n") == 1);
  CHECK(bad_table("d/ | | | x\n") == 1);
  CHECK(bad_table("a/ | | x\n") == 1);
}

TEST_CASE("classes with more than 35 functions or 3 files need a reason", "[tidy][rules]") {
  const auto of = [](int functions) {
    std::string text = "namespace a {\nclass C final : public B<int> {\n public:\n";
    for (int i = 0; i < functions; ++i) {
      text +=
          i % 2 == 0 ? "  void f() const { if (x) { g(); } }\n" : "  int f(int (*call)(int));\n";
    }
    return text +
           "  using F = int(int);\n  std::function<void()> g;\n  int h = f(1);\n"
           " private:\n  struct Inner {\n    void f();\n  };\n};\n}\n";
  };
  CHECK(large_classes(of(34), 3) == 0);
  CHECK(large_classes(of(70), 3) == 1);
  CHECK(large_classes(of(34), 4) == 1);
  CHECK(large_classes(of(34), 4, {{"C", "it is a table"}}) == 0);
  CHECK(large_classes(of(34), 4, {{"C", ""}}) == 1);
  CHECK(large_classes(of(34), 3, {{"C", "it is a table"}}) == 1);
}

TEST_CASE("a function of 71 lines is found, one of 70 is not", "[tidy][rules]") {
  const auto findings = [](const std::string& text) {
    return tidy::check_function_length({"engine/a.cpp", text});
  };
  CHECK(findings(function_of(70)).empty());
  CHECK(findings(function_of(71)).size() == 1);

  const Findings nested = findings("namespace a {\n#define B {\nstruct C : D<int> {\n" +
                                   function_of(75) + "int x = 0;\n};\n}\n" + function_of(20));
  REQUIRE(nested.size() == 1);
  CHECK(nested[0].line == 4);

  const std::string constructor =
      "C::C(int x) : a_{x}, b_{f(2)} {\n" + std::string(80, '\n') + "}\n";
  CHECK(findings(constructor).size() == 1);

  const std::string table = "const int t[] = {\n" + std::string(200, '\n') + "};\n";
  CHECK(findings(table + "enum class E {\n" + std::string(100, '\n') + "};\n").empty());
  std::string rows = "const Row rows[] = {\n";
  for (int i = 0; i < 100; ++i) rows += "  {1, f(2)},\n";
  CHECK(findings(rows + "};\n").empty());
}

TEST_CASE("banned words are found in code, not in comments or strings", "[tidy][rules]") {
  CHECK(bad_word("engine/a.cpp", "auto t = std::chrono::system_clock::now();"));
  CHECK(bad_word("sim/a.cpp", "std::chrono::steady_clock::now()"));
  CHECK_FALSE(bad_word("cli/a.cpp", "std::chrono::steady_clock::now()"));
  CHECK(bad_word("tests/sim/a.cpp", "std::random_device d;"));
  CHECK(bad_word("tests/sim/a.cpp", "int x = rand();"));
  CHECK_FALSE(bad_word("sim/a.cpp", "int x = operand();"));
  CHECK(bad_word("sim/a.cpp", "auto now = time(nullptr);"));
  CHECK(bad_word("engine/a.cpp", "std::unordered_map<int, int> m;"));
  CHECK_FALSE(bad_word("inspector/a.cpp", "std::unordered_map<int, int> m;"));
  CHECK(bad_word("sim/a.cpp", "x = std::pow(x, 2);"));
  CHECK(bad_word("storage/a.cpp", "std::getenv(\"HOME\")"));
  CHECK_FALSE(bad_word("cli/a.cpp", "std::getenv(\"HOME\")"));
  CHECK(bad_word("engine/a.cpp", "std::exit(1);"));
  CHECK_FALSE(bad_word("cli/a.cpp", "std::exit(1);"));
  CHECK(bad_word("storage/a.cpp", "std::printf(\"x\");"));
  CHECK(bad_word("storage/a.cpp", "std::cerr << x;"));
  CHECK_FALSE(bad_word("storage/a.cpp", "std::snprintf(b, 2, \"x\");"));
  CHECK(bad_word("engine/backends/cuda/module/a.cu", "kernel<<<1, 1>>>();"));
  CHECK(bad_word("cli/a.cpp", "using namespace std;"));
  CHECK(bad_word("sim/a.cpp", "using namespace tessera;"));
  CHECK(bad_word("tests/sim/a.cpp", "using namespace std;"));
  CHECK_FALSE(bad_word("tests/sim/a.cpp", "using namespace tessera::sim;"));
  CHECK_FALSE(bad_word("engine/a.cpp", "// no rand() here\nauto s = \"system_clock\";"));
}

TEST_CASE("files need licence, form, name and a bounded length", "[tidy][rules]") {
  const auto findings = [](const std::string& path, const std::string& text) {
    return tidy::check_form({path, text}).size();
  };
  const std::string header = licence + "// Purpose\n// in two lines.\n#pragma once\n";
  CHECK(findings("engine/include/tessera/a.h", header) == 0);
  CHECK(findings("engine/include/tessera/a.h", licence + "#pragma once\n") == 1);
  CHECK(findings("engine/runtime/a.h", licence + "#pragma once\n") == 0);
  CHECK(findings("engine/runtime/a.h", licence + "#ifndef A\n#define A\n#endif\n") == 1);
  CHECK(findings("engine/a.cpp", "int x;\n") == 1);
  CHECK(findings("engine/MyFile.cpp", licence) == 1);
  CHECK(findings("storage/schema.sql", "-- SPDX-License-Identifier: Apache-2.0\n") == 0);
  CHECK(findings("engine/a.cpp", licence + std::string(100, 'x') + "\n") == 0);
  CHECK(findings("engine/a.cpp", licence + std::string(101, 'x') + "\n") == 1);
  CHECK(findings("engine/a.cpp", licence + std::string(399, '\n')) == 0);
  CHECK(findings("engine/a.cpp", licence + std::string(400, '\n')) == 1);
}

TEST_CASE("names of another form are found", "[tidy][rules]") {
  const auto findings = [](const std::string& text) {
    return tidy::check_names({"engine/a.cpp", text}).size();
  };
  CHECK(findings("class Good {\n public:\n  int open;\n\n private:\n  int hidden_ = 0;\n};\n") ==
        0);
  CHECK(findings("class Bad {\n private:\n  int hidden = 0;\n  Map<int> both[2];\n};\n") == 2);
  CHECK(findings("class Good {\n private:\n  int f() const {\n    int local = 1;\n  }\n};\n") == 0);
  CHECK(findings("struct bad_type {\n};\nenum class kind { one };\nusing other = int;\n") == 3);
  CHECK(findings("struct stat info;\nusing type = int;\n") == 0);
  CHECK(findings("int camelCase = 0;\n") == 1);
  CHECK(findings("int snake_case = object.theirName + ncclCommCount() + CamelType::x;\n") == 0);
  CHECK(findings("#define X camelCase\n// camelCase\n") == 0);
  CHECK(tidy::check_names({"c/include/tessera/c/a.h", "struct tessera_model;"}).empty());
}

TEST_CASE("dead sources and dead private headers are found", "[tidy][rules]") {
  const SourceFile list{"engine/CMakeLists.txt", "add_library(e a/b.cpp)  # a/dead.cpp\n"};
  const SourceFile used{"engine/a/b.h", ""};
  const SourceFile source{"engine/a/b.cpp", "#include \"engine/a/b.h\"\n"};
  CHECK(tidy::check_listed({list, used, source}).empty());
  CHECK(tidy::check_listed({list, used, source, {"engine/a/dead.cpp", ""}}).size() == 1);
  CHECK(tidy::check_listed({list, used, source, {"engine/a/dead.h", ""}}).size() == 1);
}

TEST_CASE("options missing on either side of docs/cli.md are found", "[tidy][rules]") {
  const SourceFile source{"cli/a.cpp", "app.add_option(\"-o,--output\", x, \"see --seed-max\");"};
  CHECK(tidy::check_cli_options({source, {"docs/cli.md", "`--output`, `--seed-max N`, `--help`"}})
            .empty());
  CHECK(tidy::check_cli_options({source, {"docs/cli.md", "`--output` `--seed`"}}).size() == 2);
}

TEST_CASE("links that lead nowhere are found", "[tidy][rules]") {
  const auto exists = [](const std::string& path) { return path == "docs/cli.md"; };
  CHECK(tidy::check_links({"docs/decisions/1.md", "[a](../cli.md#x) [b](https://a.b)"}, exists)
            .empty());
  CHECK(tidy::check_links({"README.md", "[a](docs/cli.md)"}, exists).empty());
  CHECK(tidy::check_links({"README.md", "x\n[a](cli.md)"}, exists).size() == 1);
  const std::string code = "```cpp\nf([&](Rank) {});\n```\n";
  CHECK(tidy::check_links({"README.md", code}, exists).empty());
  CHECK(tidy::check_links({"README.md", code + "[a](cli.md)"}, exists).size() == 1);
}

TEST_CASE("a sink that passes calls on and lacks one is found", "[tidy]") {
  const SourceFile interface {
    "a/trace.h",
        "virtual void begin(const TraceRun&) = 0;\n"
        "virtual void kernel(const K&) {}\n"
        "virtual void defer(int) {}\n"
  };
  const auto bad = [&](const std::string& begin, const std::string& rest) {
    return tidy::check_whole_sinks(interface, {{"a/sink.h", begin + rest}}).size();
  };
  const std::string passes = "void begin(const TraceRun& r) override { to_.begin(r); }\n";
  const std::string kernel = "void kernel(const K& k) override { to_.kernel(k); }\n";
  CHECK(bad(passes, kernel) == 0);
  CHECK(bad(passes, "") == 1);
  CHECK(bad(passes, "// void kernel(const K&) override {}\n") == 1);
  CHECK(bad("void begin(const TraceRun& run) override;\n", "") == 1);
  CHECK(bad("void begin(const TraceRun&) override {}\n", "") == 0);  // listens to something else
  CHECK(bad("void begin(const Run& run) override;\n", "") == 0);
}
