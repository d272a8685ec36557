// SPDX-License-Identifier: Apache-2.0
#include "inspector/render/frame_buffer.h"

#include <algorithm>
#include <cstdlib>

#include "tessera/assert.h"

namespace tessera::inspector {
namespace {

int channel_difference_max(std::uint32_t a, std::uint32_t b) {
  int largest = 0;
  for (int shift = 0; shift < 32; shift += 8) {
    const int da = static_cast<int>((a >> shift) & 255);
    const int db = static_cast<int>((b >> shift) & 255);
    largest = std::max(largest, std::abs(da - db));
  }
  return largest;
}

std::uint32_t dim_grey(std::uint32_t colour) {
  const std::uint32_t sum = (colour & 255) + ((colour >> 8) & 255) + ((colour >> 16) & 255);
  const std::uint32_t grey = sum / 9;
  return 0xFF000000U | grey << 16 | grey << 8 | grey;
}

}  // namespace

FrameBuffer::FrameBuffer(int width_px, int height_px, std::uint32_t fill)
    : width(width_px), height(height_px) {
  TESSERA_ASSERT(width_px >= 1 && width_px <= 16384, "a picture is 1..16384 px wide");
  TESSERA_ASSERT(height_px >= 1 && height_px <= 16384, "a picture is 1..16384 px high");
  pixels.assign(static_cast<std::size_t>(width_px) * height_px, fill);
}

Difference difference(const FrameBuffer& a, const FrameBuffer& b, int tolerance) {
  Difference result;
  result.same_size = a.width == b.width && a.height == b.height;
  if (!result.same_size) return result;
  result.picture = a;
  for (std::size_t i = 0; i < a.pixels.size(); ++i) {
    const int apart = channel_difference_max(a.pixels[i], b.pixels[i]);
    result.channel_max = std::max(result.channel_max, apart);
    const bool counts = apart > tolerance;
    result.pixel_count += counts ? 1 : 0;
    result.picture.pixels[i] = counts ? 0xFFFF00FFU : dim_grey(a.pixels[i]);
  }
  return result;
}

}  // namespace tessera::inspector
