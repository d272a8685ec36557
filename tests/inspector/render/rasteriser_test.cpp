// SPDX-License-Identifier: Apache-2.0
#include "inspector/render/rasteriser.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdint>
#include <vector>

#include "inspector/render/pixel_fill.h"
#include "inspector/render/texture_store.h"

using namespace tessera::inspector;

namespace {

constexpr std::uint32_t black = 0xFF000000U;
constexpr std::uint32_t red = 0xFF0000FFU;

/// Draw data made by hand: no ImGui context, every vertex under control.
class Sketch {
 public:
  Sketch() { list_.CmdBuffer.push_back({}); }

  Sketch& clip(float x0, float y0, float x1, float y1) {
    command().ClipRect = {x0, y0, x1, y1};
    return *this;
  }
  Sketch& texture(const Texture& texture) {
    command().TextureId = const_cast<Texture*>(&texture);
    return *this;
  }
  Sketch& rect(ImVec2 a, ImVec2 b, std::uint32_t colour, ImVec2 uv_a = {0, 0},
               ImVec2 uv_b = {0, 0}) {
    const auto first = static_cast<ImDrawIdx>(list_.VtxBuffer.Size);
    list_.VtxBuffer.push_back({a, uv_a, colour});
    list_.VtxBuffer.push_back({{b.x, a.y}, {uv_b.x, uv_a.y}, colour});
    list_.VtxBuffer.push_back({b, uv_b, colour});
    list_.VtxBuffer.push_back({{a.x, b.y}, {uv_a.x, uv_b.y}, colour});
    for (const int i : {0, 1, 2, 0, 2, 3}) add_index(first + i);
    return *this;
  }
  Sketch& triangle(ImDrawVert a, ImDrawVert b, ImDrawVert c) {
    const int first = list_.VtxBuffer.Size;
    for (const ImDrawVert& v : {a, b, c}) list_.VtxBuffer.push_back(v);
    for (int i = 0; i < 3; ++i) add_index(first + i);
    return *this;
  }
  FrameBuffer draw(int width, int height, std::uint32_t ground = black) {
    FrameBuffer picture(width, height, ground);
    if (command().ClipRect.z == 0)
      clip(0, 0, static_cast<float>(width), static_cast<float>(height));
    ImDrawList* lists[] = {&list_};
    ImDrawData data;
    data.Valid = true;
    data.CmdLists = lists;
    data.CmdListsCount = 1;
    data.DisplaySize = {static_cast<float>(width), static_cast<float>(height)};
    data.FramebufferScale = {1, 1};
    rasterise(data, picture);
    return picture;
  }

 private:
  ImDrawCmd& command() { return list_.CmdBuffer.back(); }
  void add_index(int index) {
    list_.IdxBuffer.push_back(static_cast<ImDrawIdx>(index));
    ++command().ElemCount;
  }

  ImDrawList list_{nullptr};  // needs no shared data while vertices are pushed by hand
};

std::vector<std::uint32_t> row(const FrameBuffer& picture, int y) {
  const auto begin = picture.pixels.begin() + std::ptrdiff_t{y} * picture.width;
  return {begin, begin + picture.width};
}

int count(const FrameBuffer& picture, std::uint32_t colour) {
  return static_cast<int>(std::count(picture.pixels.begin(), picture.pixels.end(), colour));
}

}  // namespace

TEST_CASE("a rectangle covers the pixels whose centres it holds", "[inspector][rasteriser]") {
  const FrameBuffer picture = Sketch().rect({1, 0}, {3.5F, 1}, red).draw(5, 2);
  CHECK(row(picture, 0) == std::vector{black, red, red, black, black});
  CHECK(row(picture, 1) == std::vector(5, black));
  // The right edge at 3.51 passes the centre of pixel 3.
  CHECK(row(Sketch().rect({1, 0}, {3.51F, 1}, red).draw(5, 1), 0) ==
        std::vector{black, red, red, red, black});
}

TEST_CASE("rectangles side by side neither overlap nor leave a gap", "[inspector][rasteriser]") {
  const std::uint32_t half = 0x800000FFU;
  for (int eighth = 0; eighth <= 8; ++eighth) {
    const float x = 1.0F + static_cast<float>(eighth) / 8.0F;
    const FrameBuffer picture =
        Sketch().rect({0, 0}, {x, 1}, half).rect({x, 0}, {4, 1}, half).draw(4, 1);
    INFO("the edge is at " << x);
    CHECK(row(picture, 0) == std::vector(4, 0xFF000080U));
  }
}

TEST_CASE("blending rounds exactly and keeps an opaque ground opaque", "[inspector][rasteriser]") {
  const FrameBuffer picture = Sketch().rect({0, 0}, {1, 1}, 0x4080FF10U).draw(1, 1, 0xFF102030U);
  // alpha 64: (16 * 64 + 48 * 191) / 255, (255 * 64 + 32 * 191) / 255, (128 * 64 + 16 * 191) / 255
  CHECK(picture.at(0, 0) == 0xFF2C5828U);
  for (std::uint32_t alpha = 0; alpha < 256; ++alpha) {
    for (const std::uint32_t below : {0U, 1U, 127U, 128U, 254U, 255U}) {
      const std::uint32_t exact = (200 * alpha * 2 + below * (255 - alpha) * 2 + 255) / 510;
      const std::uint32_t ground = 0xFF000000U | below << 16 | below << 8 | below;
      REQUIRE(blend(ground, 0xC8C8C8U, alpha) == (0xFF000000U | exact << 16 | exact << 8 | exact));
    }
  }
}

TEST_CASE("nothing is drawn outside the clip rectangle or the picture", "[inspector][rasteriser]") {
  const FrameBuffer picture = Sketch().clip(1, 1, 3, 2).rect({-50, -50}, {50, 50}, red).draw(4, 3);
  CHECK(count(picture, red) == 2);
  CHECK(row(picture, 1) == std::vector{black, red, red, black});

  const ImDrawVert far_left{{-3e9F, -3e9F}, {0, 0}, red};
  const ImDrawVert far_right{{3e9F, -3e9F}, {0, 0}, red};
  const ImDrawVert far_below{{0, 3e9F}, {0, 0}, red};
  CHECK(count(Sketch().triangle(far_left, far_right, far_below).draw(8, 8), red) == 64);
  CHECK(count(Sketch().clip(5, 5, 2, 2).rect({0, 0}, {8, 8}, red).draw(8, 8), red) == 0);
}

TEST_CASE("a triangle follows the top-left rule in either winding", "[inspector][rasteriser]") {
  const ImDrawVert a{{0, 0}, {0, 0}, red};
  const ImDrawVert b{{4, 0}, {0, 0}, red};
  const ImDrawVert c{{0, 4}, {0, 0}, red};
  const FrameBuffer clockwise = Sketch().triangle(a, b, c).draw(4, 4);
  CHECK(row(clockwise, 0) == std::vector{red, red, red, black});
  CHECK(row(clockwise, 1) == std::vector{red, red, black, black});
  CHECK(row(clockwise, 2) == std::vector{red, black, black, black});
  CHECK(row(clockwise, 3) == std::vector(4, black));
  CHECK(Sketch().triangle(a, c, b).draw(4, 4) == clockwise);
}

TEST_CASE("triangles of a fan share edges without a seam", "[inspector][rasteriser]") {
  const std::uint32_t half = 0x80FFFFFFU;
  std::uint64_t seed = 7;
  const auto next = [&seed] {  // splitmix64
    std::uint64_t z = (seed += 0x9E3779B97F4A7C15ULL);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
    return static_cast<float>((z ^ (z >> 31)) % 1600) / 100.0F;
  };
  for (int round = 0; round < 200; ++round) {
    const ImDrawVert corners[] = {{{0, 0}, {0, 0}, half},
                                  {{16, 0}, {0, 0}, half},
                                  {{16, 16}, {0, 0}, half},
                                  {{0, 16}, {0, 0}, half}};
    const ImDrawVert middle{{next(), next()}, {0, 0}, half};
    Sketch sketch;
    for (int i = 0; i < 4; ++i) sketch.triangle(middle, corners[i], corners[(i + 1) % 4]);
    INFO("seed=7 round=" << round << " middle " << middle.pos.x << ' ' << middle.pos.y);
    REQUIRE(count(sketch.draw(16, 16), 0xFF808080U) == 256);
  }
}

TEST_CASE("colours run evenly over a shaded triangle", "[inspector][rasteriser]") {
  const ImDrawVert a{{0, 0}, {0, 0}, 0xFF000000U};
  const ImDrawVert b{{8, 0}, {0, 0}, 0xFF0000F0U};
  const ImDrawVert c{{0, 8}, {0, 0}, 0xFF000000U};
  const FrameBuffer picture = Sketch().triangle(a, b, c).draw(8, 8, 0xFFFFFFFFU);
  for (std::uint32_t x = 0; x < 6; ++x) {  // 240 per 8 px, at the centre
    CHECK(picture.at(static_cast<int>(x), 0) == (0xFF000000U | (x * 30 + 15)));
  }
}

TEST_CASE("a glyph takes its texels one to one and the colour of the text",
          "[inspector][rasteriser]") {
  const Texture atlas{.width = 4,
                      .height = 2,
                      .pixels = {0x00FFFFFFU, 0x80FFFFFFU, 0xFFFFFFFFU, 0xFFFFFFFFU, 0x00FFFFFFU,
                                 0xFFFFFFFFU, 0x00FFFFFFU, 0xFFFFFFFFU},
                      .sampling = Sampling::linear};
  const FrameBuffer picture =
      Sketch().texture(atlas).rect({1, 0}, {4, 2}, red, {0, 0}, {0.75F, 1}).draw(4, 2);
  CHECK(row(picture, 0) == std::vector{black, black, 0xFF000080U, red});
  CHECK(row(picture, 1) == std::vector{black, black, red, black});
}

TEST_CASE("textures are enlarged in steps or smoothly, as they wish", "[inspector][rasteriser]") {
  Texture texture{.width = 2, .height = 1, .pixels = {0xFF000000U, 0xFF0000FFU}};
  const auto enlarged = [&texture] {
    return row(Sketch()
                   .texture(texture)
                   .rect({0, 0}, {4, 1}, 0xFFFFFFFFU, {0, 0}, {1, 1})
                   .draw(4, 1, 0xFFFFFFFFU),
               0);
  };
  CHECK(enlarged() == std::vector{0xFF000000U, 0xFF000000U, 0xFF0000FFU, 0xFF0000FFU});
  texture.sampling = Sampling::linear;
  CHECK(enlarged() == std::vector{0xFF000000U, 0xFF000040U, 0xFF0000BFU, 0xFF0000FFU});
}

TEST_CASE("a texture clipped on the left starts inside itself", "[inspector][rasteriser]") {
  const Texture texture{
      .width = 4, .height = 1, .pixels = {0xFF000001U, 0xFF000002U, 0xFF000003U, 0xFF000004U}};
  const FrameBuffer picture = Sketch()
                                  .texture(texture)
                                  .clip(1, 0, 4, 1)
                                  .rect({-1, 0}, {3, 1}, 0xFFFFFFFFU, {0, 0}, {1, 1})
                                  .draw(4, 1);
  CHECK(row(picture, 0) == std::vector{black, 0xFF000003U, 0xFF000004U, black});
}

TEST_CASE("a store keeps an id over updates", "[inspector][rasteriser]") {
  SoftwareTextureStore store;
  const ImTextureID id = store.create({.width = 1, .height = 1, .pixels = {red}});
  store.update(id, {.width = 2, .height = 1, .pixels = {red, black}});
  CHECK(static_cast<Texture*>(id)->width == 2);
  store.destroy(id);
}
