// SPDX-License-Identifier: Apache-2.0
// Two panels at once, and what the window is like when it is opened again.
#include <filesystem>
#include <fstream>

#include "inspector/app/shell.h"
#include "tests/inspector/app/session.h"
#include "tests/inspector/golden.h"
#include "tests/temporary_folder.h"

namespace tessera::inspector {
namespace {

void press_with(Session& session, int modifier, int key) {
  session.screen.press_key(modifier);
  session.press(key);
  session.screen.release_key(modifier);
  session.steps(1);
}

TEST_CASE("two panels share time, rank and selection, and what one opens the other shows",
          "[inspector][app][split]") {
  Session session({.panel = "findings", .below = "all"});
  session.steps(1);
  auto& state = session.state();
  REQUIRE(state.widgets.contains("second"));
  CHECK(state.fields["second"] == "Timeline");
  state.rank = 0;
  session.click("finding/0");  // rank 5 computes longer
  CHECK(state.rank == 5);
  CHECK(state.panel == "findings");
  CHECK(state.layout.second == "all");
  const Box above = state.widgets.at("finding/0"), below = state.widgets.at("timeline/rows");
  CHECK(above.max.y < below.min.y);
  session.click("second/turn");
  CHECK(state.widgets.at("finding/0").max.x < state.widgets.at("timeline/rows").min.x);
  session.click("second/exchange");
  CHECK(state.panel == "all");
  CHECK(state.layout.second == "findings");
  session.click("second/end");
  state.widgets.erase("finding/0");
  session.steps(2);
  CHECK_FALSE(state.widgets.contains("finding/0"));
}

TEST_CASE("a second panel is opened by a key, by Ctrl and a tab, and chosen from its list",
          "[inspector][app][split]") {
  Session session;
  auto& state = session.state();
  session.press(GLFW_KEY_BACKSLASH);
  CHECK(state.layout.split);
  CHECK(state.fields["second"] == "Holders");
  press_with(session, GLFW_KEY_LEFT_CONTROL, GLFW_KEY_8);
  CHECK(state.fields["second"] == "Model");
  press_with(session, GLFW_KEY_LEFT_CONTROL, GLFW_KEY_2);  // the first one: exchanged
  CHECK(state.panel == "model");
  CHECK(state.fields["second"] == "Timeline");
  session.press(GLFW_KEY_2);  // is there already
  CHECK(state.panel == "model");
  session.click("second");
  session.click("second/overview");
  CHECK(state.fields["second"] == "Overview");
  session.screen.press_key(GLFW_KEY_LEFT_CONTROL);
  session.click("tab/path");
  session.screen.release_key(GLFW_KEY_LEFT_CONTROL);
  session.steps(1);
  CHECK(state.panel == "model");
  CHECK(state.fields["second"] == "Critical path");
  session.press(GLFW_KEY_BACKSLASH);
  CHECK_FALSE(state.layout.split);
}

TEST_CASE("the cursor is shown in both panels, whichever has the mouse",
          "[inspector][app][split]") {
  Session session({.panel = "timeline", .below = "memory"});
  auto& state = session.state();
  const Box memory = state.widgets.at("memory"), rows = state.widgets.at("timeline/rows");
  CHECK(memory.min.x == rows.min.x);  // one axis
  CHECK(memory.max.x == rows.max.x);
  // The pixels of the operations around `x`.
  const auto stripe = [&](const FrameBuffer& picture, float x) {
    std::vector<std::uint32_t> pixels;
    const auto middle = static_cast<std::size_t>(x);
    for (auto y = static_cast<std::size_t>(rows.min.y); y < static_cast<std::size_t>(rows.max.y);
         ++y) {
      const auto row = y * static_cast<std::size_t>(picture.width);
      for (std::size_t k = middle - 2; k <= middle + 2; ++k)
        pixels.push_back(picture.pixels[row + k]);
    }
    return pixels;
  };
  session.screen.move_mouse(0, 0);
  session.steps(2);
  const float x = memory.min.x + memory.width() / 2;
  const auto before = stripe(session.picture(), x);
  session.screen.move_mouse(x, memory.max.y - 30);
  session.steps(2);
  const bool changed = stripe(session.picture(), x) != before;
  CHECK(changed);
}

TEST_CASE("an edge between panels is dragged, and small windows show one",
          "[inspector][app][split]") {
  Session session({.panel = "overview", .beside = "all"});
  auto& state = session.state();
  const Box edge = state.widgets.at("edge/second");
  session.screen.move_mouse((edge.min.x + edge.max.x) / 2, 400);
  session.steps(2);
  session.screen.press_mouse();
  session.steps(1);
  session.screen.move_mouse(edge.min.x - 120, 400);
  session.steps(2);
  session.screen.release_mouse();
  session.steps(2);
  CHECK(state.widgets.at("edge/second").min.x < edge.min.x - 100);
  Session small({.panel = "overview", .beside = "all"}, 500, 400);
  CHECK_FALSE(small.state().widgets.contains("second"));
  small.press(GLFW_KEY_2);  // it is not in view, so that it can be opened
  CHECK(small.state().panel == "all");
}

TEST_CASE("two panels look as accepted", "[inspector][app][split][golden]") {
  Session dark({.panel = "all", .below = "holders"}, 1200, 900);
  check_golden(dark.picture(), "app_split_dark");
  Session light({.theme = ThemeKind::light, .panel = "overview", .beside = "communication"}, 1440,
                675);
  check_golden(light.picture(), "app_split_light");
}

struct Window {
  std::unique_ptr<Shell> shell;
  Headless screen;

  explicit Window(const std::string& kept, std::optional<ThemeKind> theme = {})
      : screen(1000, 700, theme.value_or(ThemeKind::dark)) {
    auto opened = Shell::open({.path = bundled_trace, .theme = theme, .layout_file = kept});
    REQUIRE(opened.ok());
    shell = std::move(opened).value();
    steps(3);
  }
  void steps(int count) {
    for (int k = 0; k < count; ++k) screen.step([&](Surface& ui) { shell->draw(ui); });
  }
  void press(int key) {
    screen.press_key(key);
    steps(1);
    screen.release_key(key);
    steps(3);
  }
};

TEST_CASE("theme, size of text, size of the window and panels are as they were left",
          "[inspector][app][layout]") {
  test::TemporaryFolder folder;
  const std::string kept = folder.path() + "/state/layout";
  {
    Window window(kept);
    window.press(GLFW_KEY_T);
    window.press(GLFW_KEY_BACKSLASH);
    window.screen.press_key(GLFW_KEY_LEFT_CONTROL);
    window.screen.press_key(GLFW_KEY_LEFT_SHIFT);  // + is above =
    window.press(GLFW_KEY_EQUAL);
    window.screen.release_key(GLFW_KEY_LEFT_SHIFT);
    window.screen.release_key(GLFW_KEY_LEFT_CONTROL);
  }
  const Layout layout = read_layout(kept);
  CHECK(layout.theme == ThemeKind::light);
  CHECK(layout.zoom == 1.1F);
  CHECK(layout.width == 1000);
  CHECK(layout.height == 700);
  CHECK(layout.split);
  CHECK(layout.second == "holders");
  CHECK_FALSE(std::filesystem::exists(kept + ".new"));
  Window again(kept, ThemeKind::dark);  // an option, which is for once
  CHECK(again.shell->layout() == layout);
  CHECK(again.shell->app()->state().fields["second"] == "Holders");
}

TEST_CASE("a damaged file of the layout is as none, line by line", "[inspector][app][layout]") {
  test::TemporaryFolder folder;
  const std::string kept = folder.path() + "/layout";
  const auto read = [&](const std::string& text) {
    std::ofstream(kept, std::ios::binary) << text;
    return read_layout(kept);
  };
  CHECK(read("") == Layout{});
  CHECK(read("memory nan\ndetails -4\nscale 99\nwidth 12\ntheme purple\nsplit 7\nshare 1e30\n") ==
        Layout{});
  CHECK(read(std::string(100'000, 'x')) == Layout{});
  CHECK(read(std::string("memory\0 5\nscale 2 3\n\xff\xfe", 22)) == Layout{});
  CHECK(read("scale 2\nmemory 1e9\n").zoom == 2.0F);
  Layout all{.memory = 300, .details = 250, .hides_memory = true, .hides_details = true};
  all.second = "path";
  all.split = true;
  all.below = false;
  all.share = 0.3F;
  all.theme = ThemeKind::light;
  all.zoom = 1.25F;
  all.width = 1600;
  all.height = 900;
  all.maximised = true;
  write_layout(kept, all);
  CHECK(read_layout(kept) == all);
  // Names a panel that there is not: one panel, and no complaint.
  std::ofstream(kept) << "split 1\nsecond no-such\n";
  Window window(kept);
  CHECK(window.shell->app()->state().panel == "all");
}

}  // namespace
}  // namespace tessera::inspector
