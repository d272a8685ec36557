// SPDX-License-Identifier: Apache-2.0
// A picture in memory, its PNG form, and how two pictures differ.
//
// The idea: whoever draws (software rasteriser, OpenGL) ends in this one struct, so screenshots and
// golden comparisons do not care where the picture came from.
//
//   Result<FrameBuffer> golden = read_png("expected.png");
//   if (golden && !difference(*golden, actual).same()) return write_png(actual, "actual.png");
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "tessera/status.h"

namespace tessera::inspector {

/// Rows from the top, left to right. A pixel is 0xAABBGGRR (bytes R, G, B, A: ImGui's IM_COL32).
struct FrameBuffer {
  int width = 0;
  int height = 0;
  std::vector<std::uint32_t> pixels;

  FrameBuffer() = default;
  /// REQUIRES: both sides in [1, 16384].
  FrameBuffer(int width_px, int height_px, std::uint32_t fill = 0xFF000000U);

  /// REQUIRES: (x, y) inside the picture.
  std::uint32_t at(int x, int y) const { return pixels[static_cast<std::size_t>(y) * width + x]; }
  bool operator==(const FrameBuffer&) const = default;
};

/// Writes `picture` as an 8-bit RGBA PNG; readers of `path` see the old file or the whole new one.
/// Fails: invalid_argument (empty picture), io_error.
Status write_png(const FrameBuffer& picture, const std::string& path);

/// Reads any PNG as RGBA. Fails: io_error (no such file), corrupt (not a PNG).
Result<FrameBuffer> read_png(const std::string& path);

/// Where two pictures differ.
struct Difference {
  bool same_size = false;
  std::int64_t pixel_count = 0;  // pixels with any differing channel
  int channel_max = 0;           // largest difference of a channel, 0..255
  FrameBuffer picture;  // `a` in dim grey, differing pixels magenta; empty unless same_size

  bool same() const { return same_size && pixel_count == 0; }
};

/// Compares two pictures; a pixel counts when a channel differs by more than `tolerance` (0..255).
Difference difference(const FrameBuffer& a, const FrameBuffer& b, int tolerance = 0);

}  // namespace tessera::inspector
