// SPDX-License-Identifier: Apache-2.0
#include "inspector/render/palette.h"

#include <algorithm>

#include "tessera/assert.h"

namespace tessera::inspector {
namespace {

// Checked by CIEDE2000 distance, the smallest of normal sight and the three dichromacies of
// Machado, Oliveira, Fernandes, A Physiologically-based Model for Simulation of Color Vision
// Deficiency, 2009. Memory colours started from a random search and were then toned down by hand.
// Neighbours in device_memory_stack are at least 16 apart, any two classes only 8 (dark) and 7
// (light): label them. Operations are at least 12 apart.
constexpr Palette dark = {
    .operations = {rgb(0x376FD0), rgb(0xA3D8FE), rgb(0xA79EAC), rgb(0xF7CD4D), rgb(0xE66323),
                   rgb(0xA1537B), rgb(0x1FAD77), rgb(0xDEE8C2), rgb(0x9C96FC), rgb(0x786C5A),
                   rgb(0xC03C24)},
    .memory = {rgb(0x395990), rgb(0xEAC256), rgb(0xB34F0A), rgb(0xE08E72), rgb(0x7E5467),
               rgb(0x9ECEE0), rgb(0x808394), rgb(0xAB892C), rgb(0x08804F), rgb(0xE9E9DC),
               rgb(0xD6CCA4), rgb(0x729285), rgb(0x14B8A0), rgb(0xD2EE9A), rgb(0x38393B),
               rgb(0x5A5650)},
    .ok = rgb(0x1FAD77),
    .warn = rgb(0xF7CD4D),
    .fail = rgb(0xE66323),
    .diverging_low = rgb(0x3B78C3),
    .diverging_middle = rgb(0x2B3038),
    .diverging_high = rgb(0xE66323),
    .ink_dark = rgb(0x0C0E12),
    .ink_light = rgb(0xFFFFFF),
};

constexpr Palette light = {
    .operations = {rgb(0x0053AC), rgb(0x00B8F0), rgb(0x827C8F), rgb(0xEC9D23), rgb(0xBB5800),
                   rgb(0x792952), rgb(0x61916D), rgb(0x403C1C), rgb(0x7C68F0), rgb(0x98B880),
                   rgb(0xC8A0B8)},
    .memory = {rgb(0x1A4A9C), rgb(0xE8C52A), rgb(0x9A3A08), rgb(0xF0A274), rgb(0x72566A),
               rgb(0x76BFEE), rgb(0x8189A4), rgb(0xA46C10), rgb(0x3B7050), rgb(0xC4BEB2),
               rgb(0x6E8C5E), rgb(0x3B433E), rgb(0x169A80), rgb(0xB0DAA2), rgb(0xC9CCD2),
               rgb(0xA8A49C)},
    .ok = rgb(0x0F7A50),
    .warn = rgb(0xA87400),
    .fail = rgb(0xC8480B),
    .diverging_low = rgb(0x2F6FBE),
    .diverging_middle = rgb(0xECEEF2),
    .diverging_high = rgb(0xD4540F),
    .ink_dark = rgb(0x0C0E12),
    .ink_light = rgb(0xFFFFFF),
};

// Nunez, Anderton, Renslow, Optimizing colormaps with consideration for color vision deficiency,
// 2018; ten samples at equal distances.
constexpr std::array<Colour, 10> cividis = {
    rgb(0x00224E), rgb(0x123570), rgb(0x3B496C), rgb(0x575D6D), rgb(0x707173),
    rgb(0x8A8678), rgb(0xA59C74), rgb(0xC3B369), rgb(0xE1CC55), rgb(0xFEE838)};

double clamped(double t, double low, double high) {
  if (!(t > low)) return low;  // NaN too
  return t < high ? t : high;
}

/// sRGB channel to linear light. The exponent 2.4 is 12/5: squares and a fifth root, so that the
/// result does not depend on a libm.
double linear_light(std::uint32_t channel) {
  const double c = static_cast<double>(channel & 255) / 255.0;
  if (c <= 0.04045) return c / 12.92;
  const double square = ((c + 0.055) / 1.055) * ((c + 0.055) / 1.055);
  double root = 1.0;
  for (int i = 0; i < 40; ++i) {
    root = (4.0 * root + square / (root * root * root * root)) / 5.0;
  }
  return square * root;
}

double luminance(Colour c) {
  return 0.2126 * linear_light(c) + 0.7152 * linear_light(c >> 8) + 0.0722 * linear_light(c >> 16);
}

}  // namespace

Colour mix(Colour a, Colour b, int t) {
  TESSERA_ASSERT(t >= 0 && t <= 256, "mix() goes from 0 to 256");
  Colour result = 0;
  for (int shift = 0; shift < 32; shift += 8) {
    const auto from = static_cast<int>((a >> shift) & 255);
    const auto to = static_cast<int>((b >> shift) & 255);
    result |= static_cast<Colour>((from * (256 - t) + to * t + 128) >> 8) << shift;
  }
  return result;
}

std::string_view name_of(OpClass op_class) {
  constexpr std::array<std::string_view, op_class_count> names = {
      "forward",      "backward",  "optimizer", "all-gather", "reduce-scatter", "all-reduce",
      "copies, host", "recompute", "broadcast", "all-to-all", "reduce"};
  return names[static_cast<std::size_t>(op_class)];
}

const Palette& palette(ThemeKind kind) { return kind == ThemeKind::dark ? dark : light; }

Colour sequential(double t) {
  constexpr int last = static_cast<int>(cividis.size()) - 1;
  const int place = static_cast<int>(clamped(t, 0.0, 1.0) * last * 256 + 0.5);
  const int segment = std::min(place >> 8, last - 1);
  const auto i = static_cast<std::size_t>(segment);
  return mix(cividis[i], cividis[i + 1], place - segment * 256);
}

Colour diverging(ThemeKind kind, double t) {
  const Palette& colours = palette(kind);
  const int place = static_cast<int>(clamped(t, -1.0, 1.0) * 256 + (t < 0 ? -0.5 : 0.5));
  return place < 0 ? mix(colours.diverging_middle, colours.diverging_low, -place)
                   : mix(colours.diverging_middle, colours.diverging_high, place);
}

double contrast(Colour a, Colour b) {
  const double la = luminance(a) + 0.05;
  const double lb = luminance(b) + 0.05;
  return la > lb ? la / lb : lb / la;
}

Colour text_on(Colour bar) {
  const Colour dark_ink = dark.ink_dark;
  const Colour light_ink = dark.ink_light;
  return contrast(bar, dark_ink) >= contrast(bar, light_ink) ? dark_ink : light_ink;
}

}  // namespace tessera::inspector
