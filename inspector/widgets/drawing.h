// SPDX-License-Identifier: Apache-2.0
// The few drawing helpers that every panel uses.
#pragma once

#include <string>

#include "inspector/model/view_state.h"
#include "inspector/render/surface.h"

namespace tessera::inspector {

float text_width(ImFont* font, const std::string& words);
/// Text with its top left corner at `at`, on whole pixels.
void draw_text(ImFont* font, ImVec2 at, ImU32 colour, const std::string& words);
/// Text that ends at `at.x`.
void draw_text_right(ImFont* font, ImVec2 at, ImU32 colour, const std::string& words);
/// `words` with line feeds in the place of spaces, so that lines fit into `width`; a number is not
/// parted from its unit. A longer word is a line of its own.
std::string wrapped_lines(ImFont* font, const std::string& words, float width);
/// Text in lines of at most `width` px, wrapped once for its height and for drawing it.
class WrappedText {
 public:
  WrappedText(ImFont* font, const std::string& words, float width);
  float height() const { return height_; }
  void draw(ImVec2 at, ImU32 colour, ImDrawList* on = ImGui::GetWindowDrawList()) const;

 private:
  ImFont* font_;
  std::string lines_;
  float width_, height_;
};
/// Draws such a text; returns its height.
float draw_wrapped(ImFont* font, ImVec2 at, ImU32 colour, const std::string& words, float width);
/// A horizontal line of dashes.
void draw_dashes(float x0, float x1, float y, ImU32 colour, float dash_px);
/// A stroke of a hatching, one logical pixel wide, the same to the bit on all processors. REQUIRES:
/// an angle of 45 degrees.
void draw_diagonal(const Surface& ui, ImVec2 from, ImVec2 to, ImU32 colour);
/// A square of `colour` before a legend's text; `hatched` for what is not really used.
void draw_swatch(const Surface& ui, ImVec2 at, ImU32 colour, bool hatched);
/// The beginning of `words` that fits into `width` in the current font, with "…" if it is cut; ""
/// if not even that fits.
std::string fitted(const std::string& words, float width);
/// Its beginning and its end with "…" between them, for names that differ at their ends.
std::string fitted_middle(const std::string& words, float width);
/// As much of the end of a dotted path as fits into `width` in the current font: of
/// "layers.17.mlp" also "17.mlp" or "mlp", as the last parts tell units apart. "" if not even the
/// last part fits; a very long last part is cut at its beginning.
std::string fitted_path(const std::string& path, float width);
/// "name ........ value" in the current ImGui window: name dim, value right-aligned at the edge.
/// `group` tells fields of one name apart: the state remembers the value as "group/name".
void field(const Surface& ui, ViewState& state, const std::string& group, const char* name,
           const std::string& value);
/// A title in semi-bold with the usual space around it.
void heading(const Surface& ui, const std::string& words);
/// A flat button that looks pressed while `on`; remembers its place as `name`.
bool tab_button(Surface& ui, ViewState& state, const char* label, const std::string& name, bool on);

}  // namespace tessera::inspector
