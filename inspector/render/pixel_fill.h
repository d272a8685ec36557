// SPDX-License-Identifier: Apache-2.0
// Writes pixels: blending, texture lookup and the axis-aligned rectangles that make up most of a
// frame. Integer arithmetic only.
#pragma once

#include <cstdint>

#include "inspector/render/frame_buffer.h"
#include "inspector/render/texture_store.h"

namespace tessera::inspector {

/// Half-open: [x0, x1) x [y0, y1) in whole pixels.
struct PixelRect {
  int x0 = 0, y0 = 0, x1 = 0, y1 = 0;

  bool empty() const { return x0 >= x1 || y0 >= y1; }
};

PixelRect intersect(const PixelRect& a, const PixelRect& b);

/// Texture coordinates are texels with this many fractional bits.
inline constexpr int texel_bits = 24;
inline constexpr std::int64_t one_texel = std::int64_t{1} << texel_bits;

/// Coordinates of the pixel in the corner of a rectangle, and how they grow to the right and down.
struct TexelWalk {
  std::int64_t u = 0, v = 0;    // at the centre of pixel (x0, y0)
  std::int64_t du = 0, dv = 0;  // u per pixel to the right, v per pixel down
};

/// Source over with opacity `alpha`. (x + 128 + ((x + 128) >> 8)) >> 8 is x / 255 rounded, exactly,
/// for every x in [0, 255 * 255]; two channels fit side by side in 32 bits.
inline std::uint32_t blend(std::uint32_t below, std::uint32_t colour, std::uint32_t alpha) {
  const std::uint32_t rest = 255 - alpha;
  constexpr std::uint32_t pair = 0x00FF00FFU;
  std::uint32_t rb = (colour & pair) * alpha + (below & pair) * rest + 0x00800080U;
  std::uint32_t ga =
      (((colour >> 8) & 0xFFU) | 0x00FF0000U) * alpha + ((below >> 8) & pair) * rest + 0x00800080U;
  rb = ((rb + ((rb >> 8) & pair)) >> 8) & pair;
  ga = (ga + ((ga >> 8) & pair)) & ~pair;
  return rb | ga;
}

/// Channel by channel a * b / 255, rounded.
std::uint32_t modulate(std::uint32_t a, std::uint32_t b);

/// The colour of `texture` at texel coordinates (u, v), with its own sampling.
std::uint32_t sample(const Texture& texture, std::int64_t u, std::int64_t v);

/// [x0, x1) of row y with one colour. REQUIRES: inside the target.
void fill_span(FrameBuffer& target, int y, int x0, int x1, std::uint32_t colour);

void fill_rect(FrameBuffer& target, const PixelRect& rect, std::uint32_t colour);

/// `walk` belongs to (rect.x0, rect.y0). REQUIRES: rect inside the target.
void fill_textured_rect(FrameBuffer& target, const PixelRect& rect, const TexelWalk& walk,
                        const Texture& texture, std::uint32_t colour);

}  // namespace tessera::inspector
