// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <span>

#include "inspector/render/font_data.h"
#include "inspector/render/theme.h"
#include "tessera/assert.h"

static_assert(IMGUI_VERSION_NUM >= 18600, "another imgui.h came first on the include path");

namespace tessera::inspector {
namespace {

// What both Inter and JetBrains Mono have; theme.h lists it for readers.
constexpr ImWchar glyph_ranges[] = {
    0x0020, 0x007E, 0x00A0, 0x00FF, 0x0391, 0x03A1, 0x03A3, 0x03C9, 0x2010, 0x2010, 0x2013, 0x2014,
    0x2018, 0x2019, 0x201C, 0x201D, 0x2020, 0x2022, 0x2026, 0x2026, 0x2030, 0x2030, 0x2032, 0x2033,
    0x2044, 0x2044, 0x2070, 0x2070, 0x2074, 0x2079, 0x2080, 0x2089, 0x2190, 0x2199, 0x2205, 0x2205,
    0x2211, 0x2212, 0x221E, 0x221E, 0x2248, 0x2248, 0x2260, 0x2260, 0x2264, 0x2265, 0x25A0, 0x25A1,
    0x25AA, 0x25AA, 0x25B2, 0x25B3, 0x25B6, 0x25B7, 0x25BC, 0x25BD, 0x25C0, 0x25C1, 0x25C6, 0x25C7,
    0x25CF, 0x25CF, 0x25E6, 0x25E6, 0x26A0, 0x26A0, 0x2713, 0x2713, 0x2717, 0x2717, 0};

ImFont* add_font(ImFontAtlas& atlas, std::span<const unsigned char> data, float size_px) {
  ImFontConfig config;
  config.FontDataOwnedByAtlas = false;
  // Glyphs on whole pixels: sharper at 12-15 px, and drawn by copying texels. More samples would be
  // thrown away by the snapping.
  config.OversampleH = 1;
  config.OversampleV = 1;
  config.PixelSnapH = true;
  config.EllipsisChar = 0x2026;
  config.GlyphRanges = glyph_ranges;
  // ImGui takes void* for data that it then owns or, as here, only reads.
  void* bytes = const_cast<unsigned char*>(data.data());
  const auto whole_px = static_cast<float>(static_cast<int>(size_px + 0.5F));
  return atlas.AddFontFromMemoryTTF(bytes, static_cast<int>(data.size()), whole_px, &config);
}

/// ImGui knows no OpenType features, so Inter's tabular digits are made here: one width for all.
void make_digits_tabular(ImFont& font) {
  float widest = 0.0F;
  for (ImWchar c = '0'; c <= '9'; ++c) widest = std::max(widest, font.FindGlyph(c)->AdvanceX);
  for (ImWchar c = '0'; c <= '9'; ++c) {
    auto* glyph = const_cast<ImFontGlyph*>(font.FindGlyph(c));
    const auto shift = static_cast<float>(static_cast<int>((widest - glyph->AdvanceX) / 2.0F));
    glyph->X0 += shift;
    glyph->X1 += shift;
    glyph->AdvanceX = widest;
    font.IndexAdvanceX[c] = widest;
  }
}

}  // namespace

Fonts load_fonts(ImGuiIO& io, float scale) {
  TESSERA_ASSERT(scale >= 0.5F && scale <= 4.0F, "the scale is 0.5 to 4");
  ImFontAtlas& atlas = *io.Fonts;
  atlas.Clear();
  Fonts fonts;
  fonts.body = add_font(atlas, inter_regular(), 15.0F * scale);
  fonts.title = add_font(atlas, inter_semibold(), 18.0F * scale);
  fonts.strong = add_font(atlas, inter_semibold(), 15.0F * scale);
  fonts.mono = add_font(atlas, jetbrains_mono(), 13.0F * scale);
  fonts.small = add_font(atlas, inter_regular(), 12.0F * scale);
  const bool built = atlas.Build();
  TESSERA_ASSERT(built, "the embedded fonts are readable");
  for (ImFont* font : atlas.Fonts) make_digits_tabular(*font);
  io.FontDefault = fonts.body;
  return fonts;
}

}  // namespace tessera::inspector
