// SPDX-License-Identifier: Apache-2.0
// A page with a bit of everything the render layer promises: text, widgets, lanes, a stack,
// textures.
#pragma once

#include "inspector/render/surface.h"

namespace tessera::inspector {

/// Keeps the page's texture over frames of one surface.
struct SamplePage {
  ImTextureID heat = nullptr;
  int clicks = 0;
  char query[64] = "SELECT rank, name FROM span";
  bool exposed = true;

  void draw(Surface& ui);
};

}  // namespace tessera::inspector
