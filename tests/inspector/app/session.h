// SPDX-License-Identifier: Apache-2.0
// The program driven by scripted input, without a window.
#pragma once

#include <GLFW/glfw3.h>

#include <catch2/catch.hpp>
#include <memory>
#include <string>

#include "inspector/app/app.h"
#include "inspector/render/headless.h"

namespace tessera::inspector {

inline const std::string bundled_trace =
    std::string(TESSERA_SOURCE_DIR) + "/traces/gpt2-8-h100.tessera";

/// Moves the mouse into the middle of `box` and clicks there; `steps(n)` draws n frames.
template <class Steps>
void click_into(const Box& box, Headless& screen, const Steps& steps) {
  screen.move_mouse((box.min.x + box.max.x) / 2, (box.min.y + box.max.y) / 2);
  steps(2);
  screen.press_mouse();
  steps(1);
  screen.release_mouse();
  steps(2);
}

struct Session {
  std::unique_ptr<App> app;
  Headless screen;

  explicit Session(InspectOptions options = {}, int width = 1280, int height = 720,
                   const std::string& trace = bundled_trace)
      : screen(width, height, options.theme.value_or(ThemeKind::dark),
               options.scale.value_or(1.0F)) {
    options.path = trace;
    auto opened = App::open(options);
    INFO(opened.status().message());
    REQUIRE(opened.ok());
    app = std::move(opened).value();
    steps(3);
  }
  ViewState& state() { return app->state(); }
  void steps(int count) {
    for (int k = 0; k < count; ++k) screen.step([&](Surface& ui) { app->draw(ui); });
  }
  const FrameBuffer& picture() {
    return screen.frame([&](Surface& ui) { app->draw(ui); });
  }
  void click(const std::string& widget) {
    REQUIRE(state().widgets.contains(widget));
    click_into(state().widgets[widget], screen, [this](int count) { steps(count); });
  }
  void press(int key) {
    screen.press_key(key);
    steps(1);
    screen.release_key(key);
    steps(2);
  }
};

}  // namespace tessera::inspector
