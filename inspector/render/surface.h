// SPDX-License-Identifier: Apache-2.0
// The surface on which a frame is drawn: Headless and run_window pass it to the draw function.
//
// The idea: panels see one Surface and cannot tell a window from a screenshot. Wishes (other theme,
// zoom, quit) are fields that the host carries out after the frame.
//
//   void draw(Surface& ui) {
//     ImGui::PushFont(ui.fonts.title); ImGui::TextUnformatted("run 0417"); ImGui::PopFont();
//     if (ImGui::Button("Light")) ui.wish.kind = ThemeKind::light;
//   }
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "inspector/render/palette.h"
#include "inspector/render/texture_store.h"
#include "inspector/render/theme.h"
#include "tessera/status.h"

namespace tessera::inspector {

/// A key went down, or repeats while it is held.
struct KeyPress {
  int key = 0;   // GLFW's code
  int mods = 0;  // GLFW's bits: shift, control, alt
  bool repeat = false;
};

struct Surface {
  TextureStore& textures;
  Theme theme;
  Fonts fonts;
  bool scripted = false;                   // headless: skip animations, draw their end state
  std::vector<std::string> dropped_files;  // dropped on the window since the last frame
  /// The window's own size, in px at scale 1; what it had before it was maximised.
  struct WindowSize {
    int width = 0, height = 0;
    bool maximised = false;
  } window;
  // Since the last frame, in their order. Counted as they come: keys that are only asked for once
  // per frame lose taps where frames are slow.
  std::vector<KeyPress> presses;

  /// Carried out before the next frame; fonts and theme in this struct are then new.
  struct Wish {
    ThemeKind kind = ThemeKind::dark;
    float zoom = 1.0F;  // of text and all else, times the display's own scale; kept in [0.5, 3]
    std::string title;  // of the window; empty: as it is
    bool quit = false;
    std::string picture;  // a PNG file to be made of this frame; "": none
    double wake_s = 0;    // draw again after so long without input; 0: only when there is some
  } wish;

  /// What came of the last wish for a picture, once.
  std::optional<Status> picture_done;

  const Palette& colours() const { return palette(theme.kind); }
};

}  // namespace tessera::inspector
