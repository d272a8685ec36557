// SPDX-License-Identifier: Apache-2.0
// The panels as a list, and windows of every size.
#include "inspector/app/panels.h"

#include <catch2/catch.hpp>
#include <set>

#include "inspector/app/app.h"
#include "inspector/render/headless.h"

namespace tessera::inspector {
namespace {

const std::string panels_trace = std::string(TESSERA_SOURCE_DIR) + "/traces/gpt2-8-h100.tessera";

/// Vertices of the third frame.
int vertices_of(InspectOptions options, bool whole) {
  options.path = panels_trace;
  options.against = panels_trace;
  auto app = App::open(options);
  INFO(app.status().message());
  REQUIRE(app.ok());
  if (whole) (*app)->state().time.show(0, (*app)->model().info().end);
  Headless screen(options.width, options.height, ThemeKind::dark, options.scale.value_or(1.0F));
  for (int k = 0; k < 3; ++k) screen.step([&](Surface& ui) { (*app)->draw(ui); });
  CHECK((*app)->state().panel == options.panel);
  return screen.vertex_count();
}

TEST_CASE("every panel has a name and a key of its own, and tabs lie together",
          "[inspector][panels]") {
  std::set<std::string> names, tabs;
  std::set<char> keys;
  std::string last;
  for (const PanelRow& row : panel_rows()) {
    CHECK(names.insert(row.name).second);
    CHECK((row.key == 0 || keys.insert(row.key).second));
    if (row.tab != last) CHECK(tabs.insert(row.tab).second);
    last = row.tab;
    CHECK(find_panel(row.name) == &row);
  }
  CHECK(find_panel("") == nullptr);
  CHECK(names.contains(InspectOptions().panel));
}

TEST_CASE("every panel is drawn in bounded effort at every size and scale", "[inspector][panels]") {
  for (const std::string& panel : panel_names()) {
    for (const auto& [width, height] :
         {std::pair(200, 150), {455, 1000}, {1280, 720}, {3000, 240}}) {
      for (const float scale : {0.5F, 1.0F, 3.0F}) {
        for (const bool whole : {false, true}) {
          INFO(panel << " " << width << "x" << height << " scale " << scale << " whole " << whole);
          CHECK(vertices_of({.width = width, .height = height, .scale = scale, .panel = panel},
                            whole) < 100'000);
        }
      }
    }
  }
}

TEST_CASE("every panel is drawn in bounded effort where text is small and the screen is large",
          "[inspector][panels]") {
  for (const std::string& panel : panel_names()) {
    for (const bool whole : {false, true}) {
      INFO(panel << " whole " << whole);
      CHECK(vertices_of({.width = 3840, .height = 2160, .scale = 0.5F, .panel = panel}, whole) <
            100'000);
    }
  }
}

}  // namespace
}  // namespace tessera::inspector
