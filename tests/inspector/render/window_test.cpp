// SPDX-License-Identifier: Apache-2.0
// The real window, under a virtual X server: this program starts itself again inside xvfb-run.
#include "inspector/render/window.h"

#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "inspector/render/headless.h"
#include "tests/inspector/render/sample_page.h"

using namespace tessera;
using namespace tessera::inspector;

namespace {

std::string scratch(const std::string& name) {
  const std::string folder = std::string(TESSERA_BINARY_DIR) + "/tests/scratch/";
  std::filesystem::create_directories(folder);
  return folder + name;
}

std::string this_program() { return std::filesystem::read_symlink("/proc/self/exe").string(); }

}  // namespace

TEST_CASE("window inside a display", "[.inside-display]") {
  SamplePage page;
  int frames = 0;
  const WindowOptions options{.width = 900,
                              .height = 560,
                              .screenshot_after_frames = 3,
                              .screenshot_path = scratch("window.png")};
  const Status shown = run_window(options, [&](Surface& ui) {
    ImGui::GetIO().MousePos = {-1e6F, -1e6F};  // wherever the server has put the pointer
    page.draw(ui);
    ++frames;
    return false;
  });
  INFO(shown.message());
  CHECK(shown.ok());
  CHECK(frames == 3);
}

TEST_CASE("without a display the window says what to do instead", "[.without-display]") {
  const Status shown = run_window({}, [](Surface&) { return false; });
  CHECK(shown.code() == Code::not_supported);
  CHECK(shown.message().find("no display") == 0);
  CHECK(shown.message().find("--screenshot") != std::string::npos);
}

TEST_CASE("opening a window fails politely where there is no display", "[inspector][window]") {
  const std::string command =
      "env -u DISPLAY -u WAYLAND_DISPLAY '" + this_program() + "' '[.without-display]' > /dev/null";
  CHECK(std::system(command.c_str()) == 0);
}

TEST_CASE("the window shows what the rasteriser draws", "[inspector][window]") {
  if (std::system("command -v xvfb-run > /dev/null 2>&1") != 0) {
    WARN("skipped: install xvfb to test the real window");
    return;
  }
  const std::string path = scratch("window.png");
  std::filesystem::remove(path);
  // The OpenGL driver leaks a little and is unloaded before LeakSanitizer could name it; how its
  // threads wait for each other ThreadSanitizer cannot see, so it draws without any.
  const std::string command =
      "LP_NUM_THREADS=0 ASAN_OPTIONS=detect_leaks=0 xvfb-run -a -s '-screen 0 1280x800x24' '" +
      this_program() + "' '[.inside-display]' > '" + scratch("window.log") + "' 2>&1";
  INFO("see " << scratch("window.log"));
  REQUIRE(std::system(command.c_str()) == 0);
  const Result<FrameBuffer> window = read_png(path);
  REQUIRE(window.ok());

  Headless screen(900, 560);
  SamplePage page;
  screen.frames(3, [&](Surface& ui) { page.draw(ui); });
  // 8 of 255 is 3%: edges are smoothed a little differently by every OpenGL.
  const Difference apart = difference(*window, screen.picture(), 8);
  REQUIRE(apart.same_size);
  CHECK(apart.pixel_count < 900 * 560 / 200);
  CHECK(write_png(apart.picture, scratch("window.difference.png")).ok());
}
