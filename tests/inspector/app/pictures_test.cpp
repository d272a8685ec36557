// SPDX-License-Identifier: Apache-2.0
// How the panels look.
#include "tests/inspector/app/session.h"
#include "tests/inspector/golden.h"

namespace tessera::inspector {
namespace {

TEST_CASE("the timeline looks as accepted", "[inspector][app][golden]") {
  Session dark({}, 1200, 675);
  check_golden(dark.picture(), "app_timeline_dark");
  Session light({.theme = ThemeKind::light}, 1200, 675);
  check_golden(light.picture(), "app_timeline_light");
  Session large({.scale = 2.0F}, 1920, 1080);
  check_golden(large.picture(), "app_timeline_2x");
}

TEST_CASE("the other panels look as accepted", "[inspector][app][golden]") {
  for (const std::string panel : {"overview", "memory", "communication", "findings", "path"}) {
    Session dark({.panel = panel}, 1200, 675);
    check_golden(dark.picture(), "app_" + panel + "_dark");
  }
  for (const std::string panel : {"overview", "path"}) {
    Session light({.theme = ThemeKind::light, .panel = panel}, 1200, 675);
    check_golden(light.picture(), "app_" + panel + "_light");
  }
  for (const std::string panel : {"communication", "path"}) {
    Session large({.scale = 2.0F, .panel = panel}, 1920, 1080);
    check_golden(large.picture(), "app_" + panel + "_2x");
  }
}

TEST_CASE("the critical path runs through the lanes, and rows of its table lead there",
          "[inspector][app][golden]") {
  Session session({.panel = "path"}, 1200, 900);
  // Rank 5 was made slow: the largest gain of a rank is its.
  CHECK(session.state().fields.at("path/rank/0").starts_with("rank 5 "));
  CHECK(session.state().fields.at("path") ==
        "Step 1 takes 28.0 ms, 97.5 % of it in computations and copies of rank 5, 2.46 % in "
        "collectives");
  session.click("path/rank/0");
  CHECK(session.state().panel == "all");
  CHECK(session.state().rank == 5);
  REQUIRE(session.state().selection);
  CHECK(session.state().fields.at("legend/operations").find("critical path") != std::string::npos);
  session.press(GLFW_KEY_HOME);
  session.screen.move_mouse(0, 0);
  session.steps(2);
  check_golden(session.picture(), "app_path_line_dark");
  session.press(GLFW_KEY_C);
  CHECK(session.state().fields.at("legend/operations").find("critical path") == std::string::npos);
}

TEST_CASE("two runs are compared operation by operation", "[inspector][app][golden]") {
  const std::string other = std::string(TESSERA_SOURCE_DIR) + "/traces/gpt2-8-h100-fused.tessera";
  Session dark({.panel = "compare", .rank = 5, .against = other}, 1200, 675);
  auto& fields = dark.state().fields;
  // All ranks compute faster in B, and rank 5 of A is slow beside the others.
  CHECK(fields.at("compare/cause/0").starts_with("compute of the median rank −"));
  CHECK(fields.at("compare/cause/1").starts_with("rank 5 computes longer"));
  CHECK(fields.at("compare/kind/0").starts_with("backward compute −"));
  CHECK(fields.at("compare/b").find(" −36.6 %") != std::string::npos);
  check_golden(dark.picture(), "app_compare_dark");
  const Box lanes = dark.state().widgets.at("compare/lanes");
  dark.screen.move_mouse((lanes.min.x + lanes.max.x) / 2, lanes.min.y + 30);
  dark.steps(2);
  dark.screen.press_mouse();
  dark.steps(1);
  dark.screen.release_mouse();
  dark.steps(1);
  REQUIRE(dark.state().selection);
  CHECK(dark.state().selection->rank == 5);
  Session light({.theme = ThemeKind::light, .panel = "compare", .rank = 5, .against = other}, 1200,
                675);
  check_golden(light.picture(), "app_compare_light");
  Session large({.scale = 2.0F, .panel = "compare", .rank = 5, .against = other}, 1920, 1080);
  check_golden(large.picture(), "app_compare_2x");
}

TEST_CASE("a real run lies upon its simulation", "[inspector][app][golden]") {
  const std::string traces = std::string(TESSERA_SOURCE_DIR) + "/traces/";
  Session dark({.panel = "compare", .against = traces + "simulated-h100.tessera"}, 1200, 800,
               traces + "real-h100.tessera");
  auto& fields = dark.state().fields;
  CHECK(fields.at("compare/a").find("(cuda)") != std::string::npos);
  CHECK(fields.at("compare/b").find("(simulator)") != std::string::npos);
  CHECK(fields.at("compare/memory").starts_with("A "));
  check_golden(dark.picture(), "app_compare_real_dark");
  Session light(
      {.theme = ThemeKind::light, .panel = "compare", .against = traces + "simulated-h100.tessera"},
      1200, 800, traces + "real-h100.tessera");
  check_golden(light.picture(), "app_compare_real_light");
}

TEST_CASE("memory is a picture of units, classes and buffers, and follows the cursor beside it",
          "[inspector][app]") {
  Session session({.panel = "timeline", .below = "holders"}, 1280, 1000);
  auto& state = session.state();
  CHECK(state.fields.at("icicle").ends_with(" 7.37 GiB"));
  const Box unit = state.widgets.at("icicle/h.3"), all = state.widgets.at("icicle");
  CHECK(unit.width() < all.width() / 4);
  session.click("icicle/h.3");
  CHECK(state.widgets.at("icicle/h.3").width() > all.width() - 4);
  CHECK(state.fields.at("icicle/pointed").starts_with("h.3 "));
  session.click("icicle");
  CHECK(state.fields.at("icicle").ends_with(" 7.37 GiB"));
  const Box rows = state.widgets.at("timeline/rows");
  session.screen.move_mouse(rows.max.x - 40, rows.min.y + 20);
  session.steps(3);
  CHECK(state.fields.at("holders").ends_with(", at the cursor"));
  CHECK_FALSE(state.fields.at("icicle").ends_with(" 7.37 GiB"));
  session.screen.move_mouse(0, 0);
  session.steps(3);
  CHECK(state.fields.at("holders").ends_with(", the highest moment in view"));
}

TEST_CASE("who holds memory is listed by class and buffer", "[inspector][app][golden]") {
  Session dark({.panel = "holders"}, 1200, 675);
  CHECK(dark.state().fields.at("holders").starts_with("Rank 5 holds 7.37 GiB of "));
  CHECK(dark.state().fields.at("holders/0") == "lm_head.activations of root 2.31 GiB");
  CHECK(dark.state().fields.at("holders/classes").starts_with("activations 4.72 GiB; "));
  check_golden(dark.picture(), "app_holders_dark");
  dark.click("holders/timeline");
  CHECK(dark.state().panel == "all");
  Session light({.theme = ThemeKind::light, .panel = "holders"}, 1200, 675);
  check_golden(light.picture(), "app_holders_light");
  Session large({.scale = 2.0F, .panel = "holders"}, 1920, 1080);
  check_golden(large.picture(), "app_holders_2x");
}

TEST_CASE("the help looks as accepted", "[inspector][app][golden]") {
  Session session({}, 1200, 675);
  session.state().show_help = true;
  session.steps(3);
  check_golden(session.picture(), "app_help_dark");
}

}  // namespace
}  // namespace tessera::inspector
