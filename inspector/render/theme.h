// SPDX-License-Identifier: Apache-2.0
// The look of the program: surfaces, text, spacing and fonts, for one scale.
//
// The idea: ImGui's own widgets take the style; what panels draw themselves takes the same colours
// from Theme. Depth is shown by two or three grounds, never by borders. Lengths are multiples of
// 4 px times the scale; px() rounds them to whole pixels.
//
//   Theme theme = apply_theme(ThemeKind::dark, 1.0f);
//   Fonts fonts = load_fonts(ImGui::GetIO(), 1.0f);      // then upload the atlas
#pragma once

#include <imgui.h>

#include "inspector/render/palette.h"

namespace tessera::inspector {

struct Theme {
  ThemeKind kind = ThemeKind::dark;
  float scale = 1.0F;

  // Grounds, from far to near.
  ImU32 ground, panel, raised;
  ImU32 field, field_hover, field_active;  // what can be typed into or pressed
  ImU32 line;                              // hairlines and grid
  ImU32 text, dim;                         // dim still has 4.5:1 on panel
  ImU32 accent;                            // focus, links, the cursor line
  ImU32 accent_fill;                       // a pressed main button, progress; text on it is `text`
  ImU32 selection;                         // ground of selected rows
  ImU32 hover;                             // ground of the row under the mouse
  ImU32 shadow;                            // translucent, behind popups and dimmed views

  /// Whole pixels of a length given for scale 1; never 0 for a positive length.
  float px(float length) const;

  // Row heights in px at this scale.
  float lane_px, lane_compact_px, row_px;
};

/// Sets ImGui::GetStyle() and returns the colours for own drawing. Any scale in [0.5, 4].
Theme apply_theme(ThemeKind kind, float scale);

/// Owned by the io's atlas: valid until the next load_fonts().
///
/// Every font has: ASCII, Latin-1 (× · ° ± µ ² ³), Greek (Δ Σ μ λ), ‐ – — ‘ ’ “ ” † ‡ • … ‰ ′ ″ ⁄,
/// superscripts and subscripts ⁰ ⁴..⁹ ₀..₉, arrows ← ↑ → ↓ ↔ ↕ ↖ ↗ ↘ ↙, − ∞ ∑ ∅ ≈ ≠ ≤ ≥,
/// ■ □ ▪ ▲ △ ▶ ▷ ▼ ▽ ◀ ◁ ◆ ◇ ○ ●, ✓ ✗ ⚠. Digits all have one width: right-aligned columns line up.
/// Anything else draws as '?'.
struct Fonts {
  ImFont* body = nullptr;    // Inter 15 px, the default
  ImFont* title = nullptr;   // Inter SemiBold 18 px
  ImFont* strong = nullptr;  // Inter SemiBold 15 px: the one word in a line that matters
  ImFont* mono = nullptr;    // JetBrains Mono 13 px: SQL, addresses
  ImFont* small = nullptr;   // Inter 12 px: ruler, axis and bar labels
};

/// Clears the atlas, adds the embedded fonts at `scale` and builds it. The caller gives the new
/// atlas to its renderer. REQUIRES: scale in [0.5, 4], not between NewFrame and Render.
Fonts load_fonts(ImGuiIO& io, float scale);

}  // namespace tessera::inspector
