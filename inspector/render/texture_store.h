// SPDX-License-Identifier: Apache-2.0
// Pictures made by panels (heat maps, per-pixel timeline lanes), drawn with ImGui::Image or
// AddImage.
//
// The idea: a panel fills a Texture and gets an ImTextureID; whether that names an array for the
// software rasteriser or an OpenGL texture is the store's business.
//
//   Texture lane{.width = 512, .height = 1, .pixels = columns};
//   ImTextureID id = ui.textures.create(std::move(lane));      // keep it; update() next time
//   ImGui::GetWindowDrawList()->AddImage(id, top_left, bottom_right);
#pragma once

#include <imgui.h>

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

namespace tessera::inspector {

/// How a texture looks where a pixel of it does not fall on exactly one pixel of the screen.
enum class Sampling : std::uint8_t { nearest, linear };

/// Rows from the top; 0xAABBGGRR pixels, not premultiplied. Outside, the edge pixel repeats.
struct Texture {
  int width = 0;
  int height = 0;
  std::vector<std::uint32_t> pixels;
  Sampling sampling = Sampling::nearest;
};

/// Owns textures. Ids stay valid until destroy() or the end of the store, also over update().
class TextureStore {
 public:
  TextureStore() = default;
  TextureStore(const TextureStore&) = delete;
  TextureStore& operator=(const TextureStore&) = delete;
  virtual ~TextureStore() = default;

  /// REQUIRES: 1 <= width, height <= 16384 and width * height pixels.
  virtual ImTextureID create(Texture texture) = 0;
  /// Replaces the picture behind `id`; the size may change. Not between drawing it and the end of
  /// the frame. REQUIRES: `id` from this store, and as for create().
  virtual void update(ImTextureID id, Texture texture) = 0;
  /// REQUIRES: `id` from this store and not drawn in the current frame.
  virtual void destroy(ImTextureID id) = 0;
};

/// The store behind the rasteriser: an id is the address of a Texture held here.
class SoftwareTextureStore final : public TextureStore {
 public:
  ImTextureID create(Texture texture) override;
  void update(ImTextureID id, Texture texture) override;
  void destroy(ImTextureID id) override;

 private:
  std::map<ImTextureID, std::unique_ptr<Texture>> textures_;
};

/// Asserts what create() and update() require.
void check_texture(const Texture& texture);

}  // namespace tessera::inspector
