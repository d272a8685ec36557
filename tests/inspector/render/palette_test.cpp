// SPDX-License-Identifier: Apache-2.0
#include "inspector/render/palette.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdlib>
#include <limits>

using namespace tessera;
using namespace tessera::inspector;

namespace {

constexpr ThemeKind both[] = {ThemeKind::dark, ThemeKind::light};

Colour panel_of(ThemeKind kind) { return kind == ThemeKind::dark ? rgb(0x1B1E24) : rgb(0xFFFFFF); }

/// T. Riemersma's "redmean" distance (compuphase.com/cmetric.htm): close to the eye, no CIELAB.
double redmean(Colour a, Colour b) {
  const auto channel = [](Colour c, int shift) { return static_cast<double>((c >> shift) & 255); };
  const double red = (channel(a, 0) + channel(b, 0)) / 2;
  const double dr = channel(a, 0) - channel(b, 0);
  const double dg = channel(a, 8) - channel(b, 8);
  const double db = channel(a, 16) - channel(b, 16);
  return std::sqrt((2 + red / 256) * dr * dr + 4 * dg * dg + (2 + (255 - red) / 256) * db * db);
}

}  // namespace

TEST_CASE("colours are written as everywhere else", "[inspector][palette]") {
  CHECK(rgb(0x112233) == 0xFF332211U);
  CHECK(with_alpha(rgb(0x112233), 0x80) == 0x80332211U);
  CHECK(mix(rgb(0x000000), rgb(0xFF8000), 128) == rgb(0x804000));
  CHECK(mix(rgb(0x123456), rgb(0xFEDCBA), 0) == rgb(0x123456));
  CHECK(mix(rgb(0x123456), rgb(0xFEDCBA), 256) == rgb(0xFEDCBA));
}

TEST_CASE("contrast is WCAG's ratio", "[inspector][palette]") {
  CHECK(contrast(rgb(0xFFFFFF), rgb(0x000000)) == Approx(21.0));
  CHECK(contrast(rgb(0x777777), rgb(0xFFFFFF)) == Approx(4.478).epsilon(0.001));
  CHECK(contrast(rgb(0x376FD0), rgb(0x376FD0)) == Approx(1.0));
}

TEST_CASE("every operation stands out from the panel and carries readable text",
          "[inspector][palette]") {
  for (const ThemeKind kind : both) {
    const Palette& colours = palette(kind);
    for (int i = 0; i < op_class_count; ++i) {
      const auto op = static_cast<OpClass>(i);
      INFO((kind == ThemeKind::dark ? "dark " : "light ") << name_of(op));
      CHECK(contrast(colours.of(op), panel_of(kind)) >= (kind == ThemeKind::dark ? 3.0 : 2.1));
      CHECK(contrast(colours.of(op), text_on(colours.of(op))) >= 4.5);
    }
  }
}

TEST_CASE("any two operations differ clearly", "[inspector][palette]") {
  for (const ThemeKind kind : both) {
    const auto& operations = palette(kind).operations;
    for (std::size_t i = 0; i < operations.size(); ++i) {
      for (std::size_t j = 0; j < i; ++j) {
        INFO(name_of(static_cast<OpClass>(i)) << " and " << name_of(static_cast<OpClass>(j)));
        CHECK(redmean(operations[i], operations[j]) > 80);
      }
    }
  }
}

TEST_CASE("neighbours in the memory stack differ clearly, and no class is used twice",
          "[inspector][palette]") {
  for (const ThemeKind kind : both) {
    const Palette& colours = palette(kind);
    for (std::size_t i = 1; i < device_memory_stack.size(); ++i) {
      const MemoryClass above = device_memory_stack[i];
      const MemoryClass below = device_memory_stack[i - 1];
      INFO(name_of(below) << " under " << name_of(above));
      CHECK(redmean(colours.of(below), colours.of(above)) > 100);
    }
    for (std::size_t i = 0; i < colours.memory.size(); ++i) {
      for (std::size_t j = 0; j < i; ++j) {
        INFO(name_of(static_cast<MemoryClass>(i))
             << " and " << name_of(static_cast<MemoryClass>(j)));
        CHECK(redmean(colours.memory[i], colours.memory[j]) > 40);
      }
    }
  }
}

TEST_CASE("the two stacks hold every memory class once", "[inspector][palette]") {
  std::array<int, memory_class_count> seen{};
  for (const MemoryClass c : device_memory_stack) ++seen[static_cast<std::size_t>(c)];
  for (const MemoryClass c : host_memory_stack) ++seen[static_cast<std::size_t>(c)];
  CHECK(std::all_of(seen.begin(), seen.end(), [](int n) { return n == 1; }));
}

TEST_CASE("the sequential scale gets lighter at every step", "[inspector][palette]") {
  const Colour black = rgb(0x000000);
  for (int i = 1; i <= 64; ++i) {
    CHECK(contrast(sequential(i / 64.0), black) > contrast(sequential((i - 1) / 64.0), black));
  }
  CHECK(sequential(0.0) == rgb(0x00224E));
  CHECK(sequential(1.0) == rgb(0xFEE838));
  CHECK(sequential(1.0 / 3.0) == rgb(0x575D6D));
  CHECK(sequential(-5.0) == sequential(0.0));
  CHECK(sequential(7.0) == sequential(1.0));
  CHECK(sequential(std::numeric_limits<double>::quiet_NaN()) == sequential(0.0));
}

TEST_CASE("the diverging scale is quiet in the middle and loud at both ends",
          "[inspector][palette]") {
  for (const ThemeKind kind : both) {
    const Palette& colours = palette(kind);
    CHECK(diverging(kind, 0.0) == colours.diverging_middle);
    CHECK(diverging(kind, -2.0) == colours.diverging_low);
    CHECK(diverging(kind, 2.0) == colours.diverging_high);
    CHECK(contrast(diverging(kind, 0.0), panel_of(kind)) < 1.4);
    CHECK(contrast(diverging(kind, 1.0), panel_of(kind)) > 3.0);
    CHECK(contrast(diverging(kind, -1.0), panel_of(kind)) > 3.0);
  }
}
