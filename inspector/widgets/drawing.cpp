// SPDX-License-Identifier: Apache-2.0
#include "inspector/widgets/drawing.h"

#include <cmath>

namespace tessera::inspector {

float text_width(ImFont* font, const std::string& words) {
  return font->CalcTextSizeA(font->FontSize, 1e9F, 0, words.c_str()).x;
}

void draw_text(ImFont* font, ImVec2 at, ImU32 colour, const std::string& words) {
  ImGui::GetWindowDrawList()->AddText(
      font, font->FontSize, ImVec2(std::floor(at.x), std::floor(at.y)), colour, words.c_str());
}

void draw_text_right(ImFont* font, ImVec2 at, ImU32 colour, const std::string& words) {
  draw_text(font, {at.x - text_width(font, words), at.y}, colour, words);
}

void draw_wrapped(ImFont* font, ImVec2 at, ImU32 colour, const std::string& words, float width) {
  ImGui::GetWindowDrawList()->AddText(font, font->FontSize,
                                      ImVec2(std::floor(at.x), std::floor(at.y)), colour,
                                      words.c_str(), nullptr, width);
}

float wrapped_height(ImFont* font, const std::string& words, float width) {
  return font->CalcTextSizeA(font->FontSize, 1e9F, width, words.c_str()).y;
}

void draw_dashes(float x0, float x1, float y, ImU32 colour, float dash_px) {
  for (float x = x0; x < x1; x += 2 * dash_px) {
    ImGui::GetWindowDrawList()->AddRectFilled({x, y}, {std::fmin(x + dash_px, x1), y + 1}, colour);
  }
}

void draw_swatch(const Surface& ui, ImVec2 at, ImU32 colour, bool hatched) {
  ImDrawList* draw = ImGui::GetWindowDrawList();
  const float size = ui.theme.px(9);
  draw->AddRectFilled(at, {at.x + size, at.y + size}, colour, ui.theme.px(2));
  if (!hatched) return;
  draw->PushClipRect(at, {at.x + size, at.y + size}, true);
  for (float x = -size; x < size; x += ui.theme.px(3)) {
    draw->AddLine({at.x + x, at.y + size}, {at.x + x + size, at.y}, ui.theme.dim);
  }
  draw->PopClipRect();
}

std::string fitted(const std::string& words, float width) {
  if (ImGui::CalcTextSize(words.c_str()).x <= width) return words;
  std::string shorter = words;
  while (shorter.size() > 3) {
    shorter.resize(shorter.size() - 1);
    if (ImGui::CalcTextSize((shorter + "…").c_str()).x <= width) return shorter + "…";
  }
  return "";
}

std::string fitted_path(const std::string& path, float width) {
  for (std::size_t at = 0; at < path.size();) {
    const std::string rest = path.substr(at);
    if (ImGui::CalcTextSize(rest.c_str()).x <= width) return rest;
    const std::size_t dot = path.find('.', at);
    if (dot == std::string::npos) break;
    at = dot + 1;
  }
  return "";
}

void field(const Surface& ui, ViewState& state, const std::string& group, const char* name,
           const std::string& value) {
  state.fields[group + "/" + name] = value;
  const ImVec2 at = ImGui::GetCursorScreenPos();
  const float width = ImGui::GetContentRegionAvail().x;
  ImGui::PushFont(ui.fonts.body);
  const float room = width - text_width(ui.fonts.body, value) - ui.theme.px(6);
  draw_text(ui.fonts.body, at, ui.theme.dim, fitted(name, room));
  ImGui::PopFont();
  draw_text_right(ui.fonts.body, {at.x + width, at.y}, ui.theme.text, value);
  ImGui::Dummy({width, ui.fonts.body->FontSize + ui.theme.px(3)});
}

void heading(const Surface& ui, const std::string& words) {
  ImGui::PushFont(ui.fonts.strong);
  ImGui::TextUnformatted(words.c_str());
  ImGui::PopFont();
  ImGui::Dummy({0, ui.theme.px(2)});
}

bool tab_button(Surface& ui, ViewState& state, const char* label, const std::string& name,
                bool on) {
  ImGui::PushStyleColor(ImGuiCol_Button, on ? ui.theme.field_active : ui.theme.ground);
  ImGui::PushStyleColor(ImGuiCol_Text, on ? ui.theme.text : ui.theme.dim);
  const bool pressed = ImGui::Button(label);
  ImGui::PopStyleColor(2);
  state.place(name, ImGui::GetItemRectMin(), ImGui::GetItemRectMax());
  return pressed;
}

}  // namespace tessera::inspector
