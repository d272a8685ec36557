// SPDX-License-Identifier: Apache-2.0
#include "inspector/render/texture_store.h"

#include <utility>

#include "tessera/assert.h"

namespace tessera::inspector {

void check_texture(const Texture& texture) {
  TESSERA_ASSERT(texture.width >= 1 && texture.width <= 16384, "a texture is 1..16384 px wide");
  TESSERA_ASSERT(texture.height >= 1 && texture.height <= 16384, "a texture is 1..16384 px high");
  TESSERA_ASSERT(texture.pixels.size() == static_cast<std::size_t>(texture.width) * texture.height,
                 "a texture has width * height pixels");
}

ImTextureID SoftwareTextureStore::create(Texture texture) {
  check_texture(texture);
  auto held = std::make_unique<Texture>(std::move(texture));
  const ImTextureID id = held.get();
  textures_.emplace(id, std::move(held));
  return id;
}

void SoftwareTextureStore::update(ImTextureID id, Texture texture) {
  check_texture(texture);
  const auto found = textures_.find(id);
  TESSERA_ASSERT(found != textures_.end(), "update() needs a texture of this store");
  *found->second = std::move(texture);
}

void SoftwareTextureStore::destroy(ImTextureID id) {
  const auto erased = textures_.erase(id);
  TESSERA_ASSERT(erased == 1, "destroy() needs a texture of this store");
}

}  // namespace tessera::inspector
