// SPDX-License-Identifier: Apache-2.0
// The inspector's window: GLFW, OpenGL 3 and Dear ImGui's own backends.
//
// The idea: a trace viewer mostly stands still, so it sleeps until there is input, or as long as
// `draw` says that something is moving.
//
//   Status shown = run_window({.title = "run 0417"}, [&](Surface& ui) { return app.draw(ui); });
#pragma once

#include <functional>
#include <string>

#include "inspector/render/frame_buffer.h"
#include "inspector/render/surface.h"

namespace tessera::inspector {

struct WindowOptions {
  std::string title = "Tessera inspector";
  int width = 1440;  // in px at scale 1; multiplied by the display's content scale
  int height = 900;
  ThemeKind theme = ThemeKind::dark;
  float zoom = 1.0F;  // 0.5..3, times the display's content scale
  bool maximised = false;
  bool within_display = false;  // no larger than what the display has room for
  // For tests: after this many frames read the picture back, write it to `screenshot_path`, close.
  int screenshot_after_frames = 0;
  std::string screenshot_path;
};

/// Shows a window until it is closed or `draw` wishes to quit. `draw` returns true while it wants
/// another frame without input (animation, loading). One window at a time, on the main thread.
/// Fails: not_supported (no display, no OpenGL 3), io_error (the screenshot could not be written).
Status run_window(const WindowOptions& options, const std::function<bool(Surface&)>& draw);

}  // namespace tessera::inspector
