// SPDX-License-Identifier: Apache-2.0
#include "inspector/render/rasteriser.h"

#include <algorithm>
#include <array>

#include "inspector/render/pixel_fill.h"
#include "inspector/render/triangle.h"

namespace tessera::inspector {
namespace {

constexpr float position_limit_px = 16384.0F;

std::int32_t to_fixed(float px) {
  if (!(px > -position_limit_px)) px = -position_limit_px;  // NaN too
  if (px > position_limit_px) px = position_limit_px;
  const double scaled = static_cast<double>(px) * (1 << position_bits);
  return static_cast<std::int32_t>(scaled + (scaled < 0 ? -0.5 : 0.5));
}

/// First pixel whose centre is at or right of `fixed`.
int first_pixel(std::int32_t fixed) {
  return (fixed + (1 << (position_bits - 1)) - 1) >> position_bits;
}

const Texture& white() {
  static const Texture texture{.width = 1, .height = 1, .pixels = {0xFFFFFFFFU}};
  return texture;
}

class Painter {
 public:
  Painter(const ImDrawData& data, FrameBuffer& target) : data_(data), target_(target) {}

  void paint(const ImDrawList& list) {
    for (const ImDrawCmd& command : list.CmdBuffer) {
      if (command.UserCallback != nullptr) {
        if (command.UserCallback != ImDrawCallback_ResetRenderState) {
          command.UserCallback(&list, &command);
        }
        continue;
      }
      set_clip(command.ClipRect);
      texture_ = command.GetTexID() == nullptr ? &white()
                                               : static_cast<const Texture*>(command.GetTexID());
      if (!clip_.empty()) paint_command(list, command);
    }
  }

 private:
  using Corners = std::array<const ImDrawVert*, 4>;

  void set_clip(const ImVec4& rect) {
    // As ImGui's OpenGL backend sets the scissor: origin and size cut to whole pixels.
    const ImVec2 scale = data_.FramebufferScale;
    const float x = (rect.x - data_.DisplayPos.x) * scale.x;
    const float y = (rect.y - data_.DisplayPos.y) * scale.y;
    const float width = (rect.z - rect.x) * scale.x;
    const float height = (rect.w - rect.y) * scale.y;
    const auto whole = [](float v) {
      return static_cast<int>(std::clamp(v, -position_limit_px, 2 * position_limit_px));
    };
    const PixelRect wanted = {whole(x), whole(y), whole(x) + whole(width),
                              whole(y) + whole(height)};
    clip_ = intersect(wanted, {0, 0, target_.width, target_.height});
  }

  void paint_command(const ImDrawList& list, const ImDrawCmd& command) {
    const ImDrawIdx* index = list.IdxBuffer.Data + command.IdxOffset;
    const ImDrawVert* vertices = list.VtxBuffer.Data + command.VtxOffset;
    for (unsigned i = 0; i + 2 < command.ElemCount;) {
      if (i + 5 < command.ElemCount && index[i] == index[i + 3] && index[i + 2] == index[i + 4] &&
          paint_rect({&vertices[index[i]], &vertices[index[i + 1]], &vertices[index[i + 2]],
                      &vertices[index[i + 5]]})) {
        i += 6;
        continue;
      }
      const std::array<RasterVertex, 3> corners = {convert(vertices[index[i]]),
                                                   convert(vertices[index[i + 1]]),
                                                   convert(vertices[index[i + 2]])};
      fill_triangle(target_, clip_, corners, *texture_);
      i += 3;
    }
  }

  /// Rectangles and glyphs: four corners clockwise from the top left, one colour, straight texture.
  /// Returns false if it is anything else.
  bool paint_rect(const Corners& c) {
    const bool straight =
        c[0]->pos.y == c[1]->pos.y && c[1]->pos.x == c[2]->pos.x && c[2]->pos.y == c[3]->pos.y &&
        c[3]->pos.x == c[0]->pos.x && c[0]->uv.y == c[1]->uv.y && c[1]->uv.x == c[2]->uv.x &&
        c[2]->uv.y == c[3]->uv.y && c[3]->uv.x == c[0]->uv.x && c[0]->col == c[1]->col &&
        c[0]->col == c[2]->col && c[0]->col == c[3]->col;
    if (!straight) return false;
    const RasterVertex a = convert(*c[0]);
    const RasterVertex b = convert(*c[2]);
    if (a.x > b.x || a.y > b.y) return false;
    const PixelRect rect =
        intersect(clip_, {first_pixel(a.x), first_pixel(a.y), first_pixel(b.x), first_pixel(b.y)});
    if (rect.empty()) return true;
    if (a.u == b.u && a.v == b.v) {
      const std::uint32_t texel = sample(*texture_, to_texel(a.u), to_texel(a.v));
      fill_rect(target_, rect, modulate(texel, a.colour));
    } else {
      fill_textured_rect(target_, rect, walk(a, b, rect), *texture_, a.colour);
    }
    return true;
  }

  static std::int64_t to_texel(double texels) {
    const double scaled = texels * static_cast<double>(one_texel);
    return static_cast<std::int64_t>(scaled + (scaled < 0 ? -0.5 : 0.5));
  }

  static TexelWalk walk(const RasterVertex& a, const RasterVertex& b, const PixelRect& rect) {
    constexpr double pixel = 1 << position_bits;
    const double du = (b.u - a.u) / (b.x - a.x) * pixel;
    const double dv = (b.v - a.v) / (b.y - a.y) * pixel;
    return {.u = to_texel(a.u + du * (rect.x0 + 0.5 - a.x / pixel)),
            .v = to_texel(a.v + dv * (rect.y0 + 0.5 - a.y / pixel)),
            .du = to_texel(du),
            .dv = to_texel(dv)};
  }

  RasterVertex convert(const ImDrawVert& vertex) const {
    return {.x = to_fixed((vertex.pos.x - data_.DisplayPos.x) * data_.FramebufferScale.x),
            .y = to_fixed((vertex.pos.y - data_.DisplayPos.y) * data_.FramebufferScale.y),
            .u = static_cast<double>(vertex.uv.x) * texture_->width,
            .v = static_cast<double>(vertex.uv.y) * texture_->height,
            .colour = vertex.col};
  }

  const ImDrawData& data_;
  FrameBuffer& target_;
  const Texture* texture_ = nullptr;
  PixelRect clip_;
};

}  // namespace

void rasterise(const ImDrawData& data, FrameBuffer& target) {
  Painter painter(data, target);
  for (int i = 0; i < data.CmdListsCount; ++i) painter.paint(*data.CmdLists[i]);
}

}  // namespace tessera::inspector
