// SPDX-License-Identifier: Apache-2.0
#include "inspector/render/gl_textures.h"

#include <GL/gl.h>

#include <algorithm>
#include <cstdint>

#include "tessera/assert.h"

namespace tessera::inspector {
namespace {

constexpr GLint clamp_to_edge = 0x812F;  // GL 1.2; Windows' gl.h stops at 1.1

// ImGui's OpenGL backend takes the texture's number, cast to a pointer, as the id.
ImTextureID to_id(unsigned name) {
  return reinterpret_cast<ImTextureID>(static_cast<std::intptr_t>(name));
}
unsigned to_name(ImTextureID id) {
  return static_cast<unsigned>(reinterpret_cast<std::intptr_t>(id));
}

void upload(unsigned name, const Texture& texture) {
  check_texture(texture);
  const GLint filter = texture.sampling == Sampling::linear ? GL_LINEAR : GL_NEAREST;
  glBindTexture(GL_TEXTURE_2D, name);
  glTexParameteri(GL_TEXTURE_2D, GL_TEXTURE_MIN_FILTER, filter);
  glTexParameteri(GL_TEXTURE_2D, GL_TEXTURE_MAG_FILTER, filter);
  glTexParameteri(GL_TEXTURE_2D, GL_TEXTURE_WRAP_S, clamp_to_edge);
  glTexParameteri(GL_TEXTURE_2D, GL_TEXTURE_WRAP_T, clamp_to_edge);
  glPixelStorei(GL_UNPACK_ROW_LENGTH, 0);
  glPixelStorei(GL_UNPACK_ALIGNMENT, 4);
  glTexImage2D(GL_TEXTURE_2D, 0, GL_RGBA, texture.width, texture.height, 0, GL_RGBA,
               GL_UNSIGNED_BYTE, texture.pixels.data());
}

}  // namespace

GlTextureStore::~GlTextureStore() {
  glDeleteTextures(static_cast<GLsizei>(names_.size()), names_.data());
}

ImTextureID GlTextureStore::create(Texture texture) {
  unsigned name = 0;
  glGenTextures(1, &name);
  upload(name, texture);
  names_.push_back(name);
  return to_id(name);
}

void GlTextureStore::update(ImTextureID id, Texture texture) {
  TESSERA_ASSERT(std::find(names_.begin(), names_.end(), to_name(id)) != names_.end(),
                 "update() needs a texture of this store");
  upload(to_name(id), texture);
}

void GlTextureStore::destroy(ImTextureID id) {
  const unsigned name = to_name(id);
  const auto found = std::find(names_.begin(), names_.end(), name);
  TESSERA_ASSERT(found != names_.end(), "destroy() needs a texture of this store");
  names_.erase(found);
  glDeleteTextures(1, &name);
}

FrameBuffer read_gl_frame(int width_px, int height_px) {
  FrameBuffer picture(width_px, height_px);
  glPixelStorei(GL_PACK_ALIGNMENT, 4);
  glReadPixels(0, 0, width_px, height_px, GL_RGBA, GL_UNSIGNED_BYTE, picture.pixels.data());
  for (std::uint32_t& pixel : picture.pixels) pixel |= 0xFF000000U;
  // OpenGL's rows start at the bottom.
  for (int y = 0; y < height_px / 2; ++y) {
    const auto row = [&](int i) { return picture.pixels.begin() + std::ptrdiff_t{i} * width_px; };
    std::swap_ranges(row(y), row(y + 1), row(height_px - 1 - y));
  }
  return picture;
}

}  // namespace tessera::inspector
