// SPDX-License-Identifier: Apache-2.0
// The page that opens traces.
#include "tests/inspector/app/start.h"

#include <filesystem>
#include <fstream>
#include <set>

#include "tests/inspector/golden.h"
#include "tests/temporary_folder.h"

namespace tessera::inspector {
namespace {

TEST_CASE("the first page", "[inspector][app][start][golden]") {
  for (const ThemeKind kind : {ThemeKind::dark, ThemeKind::light}) {
    Start start({.theme = kind});
    const std::string name = kind == ThemeKind::dark ? "app_start_dark" : "app_start_light";
    check_golden(start.screen.frame([&](Surface& ui) { start.shell->draw(ui); }), name);
  }
}

TEST_CASE("every example is there and opens, and every bundled trace is an example",
          "[inspector][app][start]") {
  std::set<std::string> named;
  for (const Example& example : examples()) {
    INFO(example.file);
    named.insert(example.file);
    if (*example.against != 0) named.insert(example.against);
    Start start({}, 1280, 1000);
    const std::string against = *example.against != 0 ? std::string("/") + example.against : "";
    start.click("start/example/" + std::string(example.file) + against);
    REQUIRE(start.shell->app() != nullptr);
    CHECK(start.shell->app()->model().path() == bundled_folder + "/" + example.file + ".tessera");
    CHECK(start.shell->app()->state().panel == example.panel);
    CHECK((start.shell->app()->model().against() != nullptr) == (*example.against != 0));
  }
  for (const auto& file : std::filesystem::directory_iterator(bundled_folder)) {
    if (file.path().extension() != ".tessera") continue;
    INFO(file.path().stem().string());
    CHECK(named.contains(file.path().stem().string()));
  }
}

TEST_CASE("what was opened last is offered, and what is gone is not", "[inspector][app][start]") {
  test::TemporaryFolder folder;
  const std::string kept = folder.path() + "/state/traces", copy = folder.path() + "/b.tessera";
  std::filesystem::copy_file(bundled_trace, copy);
  { Start first({.path = copy, .recent_file = kept}); }
  { Start second({.path = bundled_trace, .recent_file = kept}); }
  RecentFiles recent(kept);
  CHECK(recent.there() == std::vector<std::string>{bundled_trace, copy});
  Start start({.recent_file = kept});
  start.click("start/recent/1");
  REQUIRE(start.shell->app() != nullptr);
  CHECK(start.shell->app()->model().path() == copy);
  CHECK(RecentFiles(kept).there().front() == copy);
  std::filesystem::remove(copy);
  CHECK(RecentFiles(kept).there() == std::vector<std::string>{bundled_trace});
}

TEST_CASE("a comparison opens both of its traces, also when they moved with it",
          "[inspector][app][start]") {
  test::TemporaryFolder folder;
  const std::string file = folder.path() + "/both.json";
  const auto write = [&](const std::string& text) { std::ofstream(file) << text; };
  const auto trace = [](const std::string& name) { return bundled_folder + "/" + name; };
  write(R"({"trace_a": ")" + trace("real-h100.tessera") + R"(", "trace_b": ")" +
        trace("simulated-h100.tessera") + R"("})");
  Start start;
  start.screen.drop_file(file);
  start.steps(3);
  REQUIRE(start.shell->app() != nullptr);
  CHECK(start.shell->app()->model().path() == trace("real-h100.tessera"));
  REQUIRE(start.shell->app()->model().against() != nullptr);
  CHECK(start.shell->app()->model().against()->path() == trace("simulated-h100.tessera"));
  CHECK(start.shell->app()->state().panel == "compare");
  write(R"({"trace_a": "/gone/a.tessera", "trace_b": "/gone/b.tessera"})");
  CHECK(named_traces(file).status().message().find("which is gone") != std::string::npos);
  std::filesystem::copy_file(trace("fused.tessera"), folder.path() + "/a.tessera");
  std::filesystem::copy_file(trace("fused.tessera"), folder.path() + "/b.tessera");
  const auto moved = named_traces(file);
  REQUIRE(moved.ok());
  CHECK(moved->path == folder.path() + "/a.tessera");
  CHECK(moved->against == folder.path() + "/b.tessera");
  for (const char* const other : {"{", "{}", R"({"trace_a": 5})", R"({"a": [}])"}) {
    write(other);
    INFO(other);
    CHECK(named_traces(file).status().message().find("is neither a trace nor") !=
          std::string::npos);
  }
  CHECK(named_traces(trace("fused.tessera"))->against.empty());
}

TEST_CASE("a name is typed, Ctrl+O asks for another, and what cannot be opened is said",
          "[inspector][app][start]") {
  Start start;
  start.click("start/path");
  start.screen.type(bundled_folder + "/no-such.tessera");
  start.steps(2);
  start.screen.press_key(GLFW_KEY_ENTER);
  start.steps(1);
  start.screen.release_key(GLFW_KEY_ENTER);
  start.steps(2);
  CHECK(start.shell->app() == nullptr);
  CHECK(start.shell->start().state().fields["start/problem"].find("There is no file") == 0);
  start.click("start/example/gpt2-8-h100");
  REQUIRE(start.shell->app() != nullptr);
  start.screen.press_key(GLFW_KEY_LEFT_CONTROL);
  start.screen.press_key(GLFW_KEY_O);
  start.steps(1);
  start.screen.release_key(GLFW_KEY_O);
  start.screen.release_key(GLFW_KEY_LEFT_CONTROL);
  start.steps(2);
  CHECK(start.shell->app()->state().show_start);
  start.screen.press_key(GLFW_KEY_ESCAPE);
  start.steps(1);
  start.screen.release_key(GLFW_KEY_ESCAPE);
  start.steps(1);
  CHECK_FALSE(start.shell->app()->state().show_start);
  start.screen.drop_file(bundled_folder + "/fused.tessera");
  start.steps(2);
  CHECK(start.shell->app()->model().path() == bundled_folder + "/fused.tessera");
}

}  // namespace
}  // namespace tessera::inspector
