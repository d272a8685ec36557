// SPDX-License-Identifier: Apache-2.0
// The program from its first page on, driven by scripted input, without a window.
#pragma once

#include "inspector/app/shell.h"
#include "tests/inspector/app/session.h"

namespace tessera::inspector {

inline const std::string bundled_folder = std::string(TESSERA_SOURCE_DIR) + "/traces";

struct Start {
  std::unique_ptr<Shell> shell;
  Headless screen;

  explicit Start(InspectOptions options = {}, int width = 1280, int height = 720)
      : screen(width, height, options.theme.value_or(ThemeKind::dark),
               options.scale.value_or(1.0F)) {
    options.traces = bundled_folder;
    auto opened = Shell::open(options);
    REQUIRE(opened.ok());
    shell = std::move(opened).value();
    steps(3);
  }
  void steps(int count) {
    for (int k = 0; k < count; ++k) screen.step([&](Surface& ui) { shell->draw(ui); });
  }
  /// What is shown: the first page, or the trace that was opened.
  ViewState& state() {
    App* const app = shell->app();
    return app != nullptr && !app->state().show_start ? app->state() : shell->start().state();
  }
  void click(const std::string& widget) {
    INFO(widget);
    REQUIRE(state().widgets.contains(widget));
    const Box box = state().widgets[widget];  // the page may be gone after the first frame
    click_into(box, screen, [this](int count) { steps(count); });
  }
};

}  // namespace tessera::inspector
