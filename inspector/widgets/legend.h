// SPDX-License-Identifier: Apache-2.0
// What colours and marks mean, in as many lines as the entries need: none is left out.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "inspector/model/view_state.h"
#include "inspector/render/surface.h"

namespace tessera::inspector {

/// How an entry's swatch looks.
enum class LegendMark : std::uint8_t {
  colour,
  wait,     // hatched
  exposed,  // a line at the foot
  merged,   // fading
  line,
  prefetch  // a stroke, a line and a diamond
};

struct LegendEntry {
  LegendMark mark;
  Colour colour;
  std::string words;
};

/// px that `entries` take in `width` px; 0 if there are none.
float legend_height(const Surface& ui, const std::vector<LegendEntry>& entries, float width);
/// Draws them from the top left corner of `box`; returns what they say, in a line.
std::string draw_legend(const Surface& ui, const std::vector<LegendEntry>& entries, const Box& box);

}  // namespace tessera::inspector
