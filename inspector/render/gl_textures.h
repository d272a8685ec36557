// SPDX-License-Identifier: Apache-2.0
// Textures of panels as OpenGL textures, and the picture OpenGL has drawn.
#pragma once

#include <vector>

#include "inspector/render/frame_buffer.h"
#include "inspector/render/texture_store.h"

namespace tessera::inspector {

/// REQUIRES: the window's OpenGL context is current in every call, the destructor too.
class GlTextureStore final : public TextureStore {
 public:
  ~GlTextureStore() override;
  ImTextureID create(Texture texture) override;
  void update(ImTextureID id, Texture texture) override;
  void destroy(ImTextureID id) override;

 private:
  std::vector<unsigned> names_;  // of OpenGL, for the destructor
};

/// Reads the back buffer, opaque.
FrameBuffer read_gl_frame(int width_px, int height_px);

}  // namespace tessera::inspector
