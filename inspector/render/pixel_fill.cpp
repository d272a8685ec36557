// SPDX-License-Identifier: Apache-2.0
#include "inspector/render/pixel_fill.h"

#include <algorithm>

namespace tessera::inspector {
namespace {

std::uint32_t clamped_texel(const Texture& texture, std::int64_t x, std::int64_t y) {
  const auto cx = std::clamp<std::int64_t>(x, 0, texture.width - 1);
  const auto cy = std::clamp<std::int64_t>(y, 0, texture.height - 1);
  return texture.pixels[static_cast<std::size_t>(cy * texture.width + cx)];
}

/// a + (b - a) * f / 256, f in [0, 256], per channel.
std::uint32_t lerp(std::uint32_t a, std::uint32_t b, std::uint32_t f) {
  constexpr std::uint32_t pair = 0x00FF00FFU;
  const std::uint32_t rb = ((a & pair) * (256 - f) + (b & pair) * f + 0x00800080U) >> 8;
  const std::uint32_t ga = ((a >> 8) & pair) * (256 - f) + ((b >> 8) & pair) * f + 0x00800080U;
  return (rb & pair) | (ga & ~pair);
}

std::uint32_t sample_linear(const Texture& texture, std::int64_t u, std::int64_t v) {
  // Graphics cards give the position between two texels 8 bits; so do we.
  constexpr std::int64_t half = one_texel / 2;
  constexpr int drop = texel_bits - 8;
  const std::int64_t x = (u - half + (std::int64_t{1} << (drop - 1))) >> drop;
  const std::int64_t y = (v - half + (std::int64_t{1} << (drop - 1))) >> drop;
  const auto fx = static_cast<std::uint32_t>(x & 255);
  const auto fy = static_cast<std::uint32_t>(y & 255);
  const std::int64_t tx = x >> 8;
  const std::int64_t ty = y >> 8;
  const std::uint32_t top =
      fx == 0 ? clamped_texel(texture, tx, ty)
              : lerp(clamped_texel(texture, tx, ty), clamped_texel(texture, tx + 1, ty), fx);
  if (fy == 0) return top;
  const std::uint32_t bottom =
      lerp(clamped_texel(texture, tx, ty + 1), clamped_texel(texture, tx + 1, ty + 1), fx);
  return lerp(top, bottom, fy);
}

void blend_pixel(std::uint32_t& pixel, std::uint32_t colour) {
  const std::uint32_t alpha = colour >> 24;
  if (alpha == 255) {
    pixel = colour;
  } else if (alpha != 0) {
    pixel = blend(pixel, colour, alpha);
  }
}

/// Texels on pixels, one to one, as glyphs lie.
bool aligned(const TexelWalk& walk) {
  constexpr std::int64_t half = one_texel / 2;
  return walk.du == one_texel && walk.dv == one_texel && (walk.u & (one_texel - 1)) == half &&
         (walk.v & (one_texel - 1)) == half;
}

bool inside(const Texture& texture, std::int64_t x, std::int64_t y, const PixelRect& rect) {
  return x >= 0 && y >= 0 && x + (rect.x1 - rect.x0) <= texture.width &&
         y + (rect.y1 - rect.y0) <= texture.height;
}

void copy_texels(FrameBuffer& target, const PixelRect& rect, const TexelWalk& walk,
                 const Texture& texture, std::uint32_t colour) {
  const std::int64_t tx = walk.u >> texel_bits;
  const std::int64_t ty = walk.v >> texel_bits;
  for (int y = rect.y0; y < rect.y1; ++y) {
    const std::uint32_t* from =
        &texture.pixels[static_cast<std::size_t>((ty + y - rect.y0) * texture.width + tx)];
    std::uint32_t* to = &target.pixels[static_cast<std::size_t>(y) * target.width + rect.x0];
    for (int i = 0; i < rect.x1 - rect.x0; ++i) {
      if (from[i] >> 24 != 0) blend_pixel(to[i], modulate(from[i], colour));
    }
  }
}

}  // namespace

PixelRect intersect(const PixelRect& a, const PixelRect& b) {
  return {std::max(a.x0, b.x0), std::max(a.y0, b.y0), std::min(a.x1, b.x1), std::min(a.y1, b.y1)};
}

std::uint32_t modulate(std::uint32_t a, std::uint32_t b) {
  if (b == 0xFFFFFFFFU) return a;
  if (a == 0xFFFFFFFFU) return b;
  std::uint32_t result = 0;
  for (int shift = 0; shift < 32; shift += 8) {
    const std::uint32_t product = ((a >> shift) & 255) * ((b >> shift) & 255) + 128;
    result |= ((product + (product >> 8)) >> 8) << shift;
  }
  return result;
}

std::uint32_t sample(const Texture& texture, std::int64_t u, std::int64_t v) {
  if (texture.sampling == Sampling::linear) return sample_linear(texture, u, v);
  return clamped_texel(texture, u >> texel_bits, v >> texel_bits);
}

void fill_span(FrameBuffer& target, int y, int x0, int x1, std::uint32_t colour) {
  std::uint32_t* row = &target.pixels[static_cast<std::size_t>(y) * target.width];
  const std::uint32_t alpha = colour >> 24;
  if (alpha == 255) {
    std::fill(row + x0, row + x1, colour);
  } else if (alpha != 0) {
    for (int x = x0; x < x1; ++x) row[x] = blend(row[x], colour, alpha);
  }
}

void fill_rect(FrameBuffer& target, const PixelRect& rect, std::uint32_t colour) {
  if (rect.empty()) return;
  for (int y = rect.y0; y < rect.y1; ++y) fill_span(target, y, rect.x0, rect.x1, colour);
}

void fill_textured_rect(FrameBuffer& target, const PixelRect& rect, const TexelWalk& walk,
                        const Texture& texture, std::uint32_t colour) {
  if (rect.empty()) return;
  if (aligned(walk) && inside(texture, walk.u >> texel_bits, walk.v >> texel_bits, rect)) {
    copy_texels(target, rect, walk, texture, colour);
    return;
  }
  std::int64_t v = walk.v;
  for (int y = rect.y0; y < rect.y1; ++y, v += walk.dv) {
    std::uint32_t* to = &target.pixels[static_cast<std::size_t>(y) * target.width];
    std::int64_t u = walk.u;
    for (int x = rect.x0; x < rect.x1; ++x, u += walk.du) {
      blend_pixel(to[x], modulate(sample(texture, u, v), colour));
    }
  }
}

}  // namespace tessera::inspector
