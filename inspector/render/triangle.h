// SPDX-License-Identifier: Apache-2.0
// Any triangle: flat or shaded colour, with or without a texture.
#pragma once

#include <array>
#include <cstdint>

#include "inspector/render/pixel_fill.h"

namespace tessera::inspector {

/// Positions are pixels with 8 fractional bits, |x|, |y| <= 16384 px; u, v are texels.
struct RasterVertex {
  std::int32_t x = 0, y = 0;
  double u = 0.0, v = 0.0;
  std::uint32_t colour = 0;
};

inline constexpr int position_bits = 8;

/// Fills the pixels whose centres lie inside (left and top edges count as inside, so neighbours
/// never overlap or leave a gap), in either winding. REQUIRES: clip inside the target.
void fill_triangle(FrameBuffer& target, const PixelRect& clip,
                   const std::array<RasterVertex, 3>& corners, const Texture& texture);

}  // namespace tessera::inspector
