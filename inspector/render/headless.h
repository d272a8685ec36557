// SPDX-License-Identifier: Apache-2.0
// An ImGui program without a window: scripted input in, pictures out.
//
// The idea: time, input and fonts come from the caller or from this library, never from the
// machine, so the same script gives the same picture everywhere. This is both the screenshot path
// and the test harness; it never touches OpenGL.
//
//   Headless screen(1280, 720);
//   screen.move_mouse(40, 30); screen.press_mouse();
//   const FrameBuffer& picture = screen.frame([&](Surface& ui) { app.draw(ui); });
#pragma once

#include <functional>
#include <memory>
#include <string_view>

#include "inspector/render/frame_buffer.h"
#include "inspector/render/surface.h"

namespace tessera::inspector {

/// Keys are GLFW's codes (GLFW_KEY_W, ...): ImGui::IsKeyDown(GLFW_KEY_W) works as in the window.
class Headless {
 public:
  /// REQUIRES: both sides in [1, 16384] px; scale in [0.5, 3]. A picture for a HiDPI screen has a
  /// larger size and scale 2.
  Headless(int width_px, int height_px, ThemeKind kind = ThemeKind::dark, float scale = 1.0F);
  Headless(const Headless&) = delete;
  Headless& operator=(const Headless&) = delete;
  ~Headless();

  // Input for the coming frames, in the order of events; buttons: 0 left, 1 right, 2 middle.
  void move_mouse(float x, float y);
  void press_mouse(int button = 0);
  void release_mouse(int button = 0);
  void turn_wheel(float up, float right = 0.0F);  // for one frame
  // Modifiers too: GLFW_KEY_LEFT_CONTROL. `repeat`: it is held and comes again.
  void press_key(int glfw_key, bool repeat = false);
  void release_key(int glfw_key);
  void type(std::string_view utf8);  // characters of one frame
  void drop_file(std::string_view path);

  /// One frame of 1/60 s: NewFrame, `draw`, Render, rasterise. The picture is valid until the next
  /// call. Inside `draw`, this object's ImGui context is current.
  const FrameBuffer& frame(const std::function<void(Surface&)>& draw);

  /// frame() `count` times: lets ImGui settle (hover, focus, auto-sizes take two frames).
  const FrameBuffer& frames(int count, const std::function<void(Surface&)>& draw);

  /// As frame(), without drawing: for tests of behaviour that need no picture.
  void step(const std::function<void(Surface&)>& draw);

  const FrameBuffer& picture() const;
  Surface& surface();
  /// Vertices of the last frame, a budget that tests can check.
  int vertex_count() const;
  /// The shapes of the last frame; valid until the next one.
  const ImDrawData& draw_data() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tessera::inspector
