// SPDX-License-Identifier: Apache-2.0
#include "inspector/render/theme.h"

#include <catch2/catch.hpp>

#include "inspector/render/headless.h"

using namespace tessera::inspector;

TEST_CASE("text is readable on every ground of the theme", "[inspector][theme]") {
  for (const ThemeKind kind : {ThemeKind::dark, ThemeKind::light}) {
    Headless screen(64, 64, kind);
    const Theme& theme = screen.surface().theme;
    for (const ImU32 ground : {theme.ground, theme.panel, theme.raised, theme.field,
                               theme.selection, theme.hover, theme.accent_fill}) {
      INFO((kind == ThemeKind::dark ? "dark " : "light ") << std::hex << ground);
      CHECK(contrast(theme.text, ground) >= 6.0);
    }
    CHECK(contrast(theme.dim, theme.panel) >= 4.5);
    CHECK(contrast(theme.dim, theme.ground) >= 4.5);
    CHECK(contrast(theme.accent, theme.panel) >= 4.5);
  }
}

TEST_CASE("lengths become whole pixels and never vanish", "[inspector][theme]") {
  Headless screen(64, 64, ThemeKind::dark, 1.5F);
  const Theme& theme = screen.surface().theme;
  CHECK(theme.px(18) == 27.0F);
  CHECK(theme.px(1) == 2.0F);
  CHECK(theme.px(0) == 0.0F);
  CHECK(theme.px(0.1F) == 1.0F);
  CHECK(theme.lane_px == 27.0F);
}

TEST_CASE("every promised glyph is in every font", "[inspector][theme]") {
  Headless screen(64, 64);
  const Fonts& fonts = screen.surface().fonts;
  const char16_t promised[] =
      u"AZaz09~ ×·°±µ²³ΔΣμλ‐–—‘’“”†‡•…‰′″⁄⁰⁴⁹₀₉←↑→↓↔↕↖↗↘↙−∞∑∅≈≠≤≥■□▪▲△▶▷▼▽◀◁◆◇●◦✓✗⚠";
  for (const ImFont* font : {fonts.body, fonts.title, fonts.strong, fonts.mono, fonts.small}) {
    for (const char16_t* c = promised; *c != 0; ++c) {
      INFO("U+" << std::hex << static_cast<unsigned>(*c));
      CHECK(font->FindGlyphNoFallback(*c) != nullptr);
    }
  }
}

TEST_CASE("digits have one width, so that columns line up", "[inspector][theme]") {
  Headless screen(64, 64);
  const Fonts& fonts = screen.surface().fonts;
  for (ImFont* font : {fonts.body, fonts.title, fonts.strong, fonts.mono, fonts.small}) {
    const float one = font->CalcTextSizeA(font->FontSize, 1e6F, 0, "1111").x;
    CHECK(font->CalcTextSizeA(font->FontSize, 1e6F, 0, "8888").x == one);
    CHECK(font->CalcTextSizeA(font->FontSize, 1e6F, 0, "4072").x == one);
  }
}
