// SPDX-License-Identifier: Apache-2.0
#include "inspector/render/triangle.h"

#include <algorithm>
#include <utility>

namespace tessera::inspector {
namespace {

constexpr std::int32_t one_pixel = 1 << position_bits;
constexpr std::int32_t half_pixel = one_pixel / 2;
constexpr int colour_bits = 16;

std::int64_t floor_div(std::int64_t a, std::int64_t b) {  // REQUIRES: b > 0
  return a / b - (a % b < 0 ? 1 : 0);
}

/// Which side of an edge a pixel centre is on: `at_origin` + x * `per_x`, inside if >= `least`.
/// J. Pineda, A Parallel Algorithm for Polygon Rasterization, 1988.
struct Edge {
  std::int64_t at_origin = 0, per_x = 0, per_y = 0, least = 0;

  Edge(const RasterVertex& a, const RasterVertex& b) {
    const std::int64_t dx = b.x - a.x;
    const std::int64_t dy = b.y - a.y;
    per_x = -dy * one_pixel;
    per_y = dx * one_pixel;
    at_origin = dx * (half_pixel - a.y) - dy * (half_pixel - a.x);
    const bool top_or_left = dy < 0 || (dy == 0 && dx > 0);
    least = top_or_left ? 0 : 1;
  }

  /// Narrows [x0, x1) to the pixels of row y inside this edge.
  void narrow(int y, std::int64_t& x0, std::int64_t& x1) const {
    const std::int64_t slack = at_origin + per_y * y - least;
    if (per_x > 0) {
      x0 = std::max(x0, -floor_div(slack, per_x));
    } else if (per_x < 0) {
      x1 = std::min(x1, floor_div(slack, -per_x) + 1);
    } else if (slack < 0) {
      x1 = x0;
    }
  }
};

/// A quantity linear over the triangle: value at the centre of a pixel, and its growth along x.
class Plane {
 public:
  Plane(const std::array<RasterVertex, 3>& c, double area, const std::array<double, 3>& f)
      : origin_x_(c[0].x), origin_y_(c[0].y), value_(f[0]) {
    const double d1 = f[1] - f[0];
    const double d2 = f[2] - f[0];
    per_x_ = (d1 * (c[2].y - c[0].y) - d2 * (c[1].y - c[0].y)) / area;
    per_y_ = (d2 * (c[1].x - c[0].x) - d1 * (c[2].x - c[0].x)) / area;
  }

  std::int64_t at(std::int64_t x, int y, int bits) const {
    const double px = static_cast<double>(x) * one_pixel + half_pixel - origin_x_;
    const double py = static_cast<double>(y) * one_pixel + half_pixel - origin_y_;
    return fixed(value_ + per_x_ * px + per_y_ * py, bits);
  }
  std::int64_t step(int bits) const { return fixed(per_x_ * one_pixel, bits); }

 private:
  static std::int64_t fixed(double value, int bits) {
    // Slivers have huge slopes but cover a pixel or two; the limit keeps the sums in range.
    const double limited = std::clamp(value, -16384.0, 16384.0);
    const double scaled = limited * static_cast<double>(std::int64_t{1} << bits);
    return static_cast<std::int64_t>(scaled + (scaled < 0 ? -0.5 : 0.5));
  }

  double origin_x_, origin_y_, value_, per_x_ = 0.0, per_y_ = 0.0;
};

/// Everything that varies over a triangle, walked along rows.
class Shader {
 public:
  Shader(const std::array<RasterVertex, 3>& c, std::int64_t area, const Texture& texture)
      : texture_(texture),
        flat_colour_(c[0].colour == c[1].colour && c[0].colour == c[2].colour),
        flat_texture_(c[0].u == c[1].u && c[0].u == c[2].u && c[0].v == c[1].v && c[0].v == c[2].v),
        colour_(c[0].colour),
        planes_{plane(c, area, 0), plane(c, area, 8), plane(c, area, 16), plane(c, area, 24)},
        u_(c, static_cast<double>(area), {c[0].u, c[1].u, c[2].u}),
        v_(c, static_cast<double>(area), {c[0].v, c[1].v, c[2].v}) {
    if (flat_texture_) {
      texel_ = sample(texture_, u_.at(0, 0, texel_bits), v_.at(0, 0, texel_bits));
    }
  }

  bool flat() const { return flat_colour_ && flat_texture_; }
  std::uint32_t flat_result() const { return modulate(texel_, colour_); }

  void fill(FrameBuffer& target, int y, int x0, int x1) const {
    std::array<std::int64_t, 4> channel{}, slope{};
    for (std::size_t i = 0; i < 4; ++i) {
      channel[i] = planes_[i].at(x0, y, colour_bits);
      slope[i] = planes_[i].step(colour_bits);
    }
    std::int64_t u = u_.at(x0, y, texel_bits);
    std::int64_t v = v_.at(x0, y, texel_bits);
    const std::int64_t du = u_.step(texel_bits);
    const std::int64_t dv = v_.step(texel_bits);
    for (int x = x0; x < x1; ++x, u += du, v += dv) {
      const std::uint32_t texel = flat_texture_ ? texel_ : sample(texture_, u, v);
      fill_span(target, y, x, x + 1, modulate(texel, flat_colour_ ? colour_ : pack(channel)));
      for (std::size_t i = 0; i < 4; ++i) channel[i] += slope[i];
    }
  }

 private:
  static Plane plane(const std::array<RasterVertex, 3>& c, std::int64_t area, int shift) {
    std::array<double, 3> f{};
    for (std::size_t i = 0; i < 3; ++i) f[i] = static_cast<double>((c[i].colour >> shift) & 255);
    return {c, static_cast<double>(area), f};
  }
  static std::uint32_t pack(const std::array<std::int64_t, 4>& channel) {
    std::uint32_t packed = 0;
    for (std::size_t i = 0; i < 4; ++i) {
      const std::int64_t rounded = (channel[i] + (1 << (colour_bits - 1))) >> colour_bits;
      packed |= static_cast<std::uint32_t>(std::clamp<std::int64_t>(rounded, 0, 255)) << (8 * i);
    }
    return packed;
  }

  const Texture& texture_;
  bool flat_colour_, flat_texture_;
  std::uint32_t colour_, texel_ = 0xFFFFFFFFU;
  std::array<Plane, 4> planes_;
  Plane u_, v_;
};

}  // namespace

void fill_triangle(FrameBuffer& target, const PixelRect& clip,
                   const std::array<RasterVertex, 3>& corners, const Texture& texture) {
  std::array<RasterVertex, 3> c = corners;
  std::int64_t area = std::int64_t{c[1].x - c[0].x} * (c[2].y - c[0].y) -
                      std::int64_t{c[1].y - c[0].y} * (c[2].x - c[0].x);
  if (area == 0) return;
  if (area < 0) {
    std::swap(c[1], c[2]);
    area = -area;
  }
  const auto [low, high] = std::minmax({c[0].y, c[1].y, c[2].y});
  const int y0 = std::max(clip.y0, (low + half_pixel - 1) >> position_bits);
  const int y1 = std::min(clip.y1, (high + half_pixel) >> position_bits);
  if (y0 >= y1 + 1 || clip.empty()) return;

  const std::array<Edge, 3> edges = {Edge{c[0], c[1]}, Edge{c[1], c[2]}, Edge{c[2], c[0]}};
  const Shader shader(c, area, texture);
  for (int y = y0; y < y1; ++y) {
    std::int64_t x0 = clip.x0;
    std::int64_t x1 = clip.x1;
    for (const Edge& edge : edges) edge.narrow(y, x0, x1);
    if (x0 >= x1) continue;
    if (shader.flat()) {
      fill_span(target, y, static_cast<int>(x0), static_cast<int>(x1), shader.flat_result());
    } else {
      shader.fill(target, y, static_cast<int>(x0), static_cast<int>(x1));
    }
  }
}

}  // namespace tessera::inspector
