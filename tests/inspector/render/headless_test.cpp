// SPDX-License-Identifier: Apache-2.0
#include "inspector/render/headless.h"

#include <GLFW/glfw3.h>

#include <catch2/catch.hpp>
#include <cstdint>
#include <string>

#include "tests/inspector/golden.h"
#include "tests/inspector/render/sample_page.h"

using namespace tessera::inspector;

namespace {

FrameBuffer picture_of(ThemeKind kind, float scale) {
  Headless screen(static_cast<int>(900 * scale), static_cast<int>(560 * scale), kind, scale);
  SamplePage page;
  return screen.frames(3, [&](Surface& ui) { page.draw(ui); });
}

/// Every path of the rasteriser with awkward positions, from one seed; the golden holds for every
/// compiler and optimisation level.
void draw_shapes(Surface& ui) {
  std::uint64_t seed = 417;
  const auto bits = [&seed] {  // splitmix64
    std::uint64_t z = (seed += 0x9E3779B97F4A7C15ULL);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
    return z ^ (z >> 31);
  };
  const auto up_to = [&bits](unsigned n) { return static_cast<float>(bits() % (n * 64)) / 64.0F; };
  const auto point = [&up_to] {
    const float x = up_to(340) - 10.0F;
    return ImVec2{x, up_to(260) - 10.0F};
  };
  ImDrawList& draw = *ImGui::GetForegroundDrawList();
  for (int i = 0; i < 96; ++i) {
    const ImVec2 a = point();
    const ImVec2 b = point();
    const ImVec2 c = point();
    const ImVec2 d = point();
    const float width = 0.5F + up_to(4);
    const auto colour = static_cast<ImU32>(bits());
    switch (i % 8) {
      case 0: draw.AddTriangleFilled(a, b, c, colour); break;
      case 1: draw.AddCircle(a, 5 * width, colour, 0, width); break;
      case 2: draw.AddLine(a, b, colour, width); break;
      case 3: draw.AddRectFilled(a, b, colour, 2 * width); break;
      case 4: draw.AddBezierCubic(a, b, c, d, colour, width); break;
      case 5: draw.AddText(ui.fonts.body, 9 + 6 * width, a, colour, "Tessera gq 0123"); break;
      case 6: draw.AddRectFilledMultiColor(a, b, colour, ~colour, colour / 7, colour / 13); break;
      default: draw.AddQuad(a, b, c, d, colour, width); break;
    }
  }
}

}  // namespace

TEST_CASE("shapes of every kind look as they did", "[inspector][golden]") {
  // Where hundreds of edges cross, a last bit may put one on the other side of a pixel's middle.
  constexpr int crossing_edges = 48;
  check_golden(Headless(320, 240).frame(draw_shapes), "shapes", crossing_edges);
}

TEST_CASE("a page of widgets looks as it did", "[inspector][golden]") {
  check_golden(picture_of(ThemeKind::dark, 1.0F), "widgets_dark");
  check_golden(picture_of(ThemeKind::light, 1.0F), "widgets_light");
  check_golden(picture_of(ThemeKind::dark, 2.0F), "widgets_dark_2x");
}

TEST_CASE("two runs of a page give the same picture bit by bit", "[inspector][headless]") {
  CHECK(picture_of(ThemeKind::dark, 1.0F) == picture_of(ThemeKind::dark, 1.0F));
}

TEST_CASE("a page stays still without input", "[inspector][headless]") {
  Headless screen(900, 560);
  SamplePage page;
  const auto draw = [&](Surface& ui) { page.draw(ui); };
  const FrameBuffer before = screen.frames(3, draw);
  CHECK(screen.frames(90, draw) == before);
}

TEST_CASE("the mouse presses buttons", "[inspector][headless]") {
  Headless screen(900, 560);
  int clicks = 0;
  const auto draw = [&clicks](Surface&) {
    ImGui::SetNextWindowPos({0, 0});
    ImGui::Begin("page", nullptr, ImGuiWindowFlags_NoDecoration);
    if (ImGui::Button("press me", {100, 30})) ++clicks;
    ImGui::End();
  };
  screen.move_mouse(30, 20);
  screen.frames(2, draw);
  screen.press_mouse();
  screen.frame(draw);
  CHECK(clicks == 0);
  screen.release_mouse();
  screen.frame(draw);
  CHECK(clicks == 1);
}

TEST_CASE("keys, characters, wheel and files reach the program", "[inspector][headless]") {
  Headless screen(200, 100);
  char text[32] = "";
  bool w_down = false;
  float wheel = 0;
  std::size_t files = 0;
  const auto draw = [&](Surface& ui) {
    ImGui::Begin("page");
    if (ImGui::GetFrameCount() == 2) ImGui::SetKeyboardFocusHere();
    ImGui::InputText("text", text, sizeof(text));
    ImGui::End();
    w_down = ImGui::IsKeyDown(GLFW_KEY_W) && ImGui::GetIO().KeyCtrl;
    wheel += ImGui::GetIO().MouseWheel;
    files += ui.dropped_files.size();
  };
  screen.frames(3, draw);
  screen.type("µs 12");
  screen.frame(draw);
  screen.turn_wheel(1.5F);
  screen.press_key(GLFW_KEY_LEFT_CONTROL);
  screen.press_key(GLFW_KEY_W);
  screen.drop_file("a.tessera");
  screen.frame(draw);
  CHECK(w_down);
  screen.release_key(GLFW_KEY_W);
  screen.release_key(GLFW_KEY_LEFT_CONTROL);
  screen.frame(draw);
  CHECK_FALSE(w_down);
  screen.press_key(GLFW_KEY_BACKSPACE);
  screen.frame(draw);
  CHECK(wheel == 1.5F);
  CHECK(files == 1);
  CHECK(std::string(text) == "µs 1");
}

TEST_CASE("a wish for another theme or zoom comes true in the next frame",
          "[inspector][headless]") {
  Headless screen(200, 100);
  const auto draw = [](Surface& ui) {
    ui.wish.kind = ThemeKind::light;
    ui.wish.zoom = 9.0F;
  };
  screen.frame(draw);
  CHECK(screen.surface().theme.kind == ThemeKind::dark);
  screen.frame(draw);
  CHECK(screen.surface().theme.kind == ThemeKind::light);
  CHECK(screen.surface().theme.scale == 3.0F);
  CHECK(screen.surface().fonts.body->FontSize == 45.0F);
  CHECK(screen.picture().at(199, 99) == screen.surface().theme.ground);
}

TEST_CASE("two programs without a window do not disturb each other", "[inspector][headless]") {
  Headless first(120, 80);
  SamplePage page;
  first.frame([&](Surface& ui) { page.draw(ui); });
  {
    Headless second(120, 80, ThemeKind::light);
    second.frame([](Surface&) {
      ImGui::GetForegroundDrawList()->AddCircle({9, 9}, 5, 0xFFFFFFFFU);
    });
  }
  CHECK(ImGui::GetCurrentContext() == nullptr);
  const FrameBuffer again = first.frame([&](Surface& ui) { page.draw(ui); });
  CHECK(again.at(119, 79) == first.surface().theme.panel);
}
