// SPDX-License-Identifier: Apache-2.0
#include "inspector/render/theme.h"

#include <algorithm>

#include "tessera/assert.h"

namespace tessera::inspector {
namespace {

Theme dark_theme() {
  Theme theme;
  theme.kind = ThemeKind::dark;
  theme.ground = rgb(0x15171C);
  theme.panel = rgb(0x1B1E24);
  theme.raised = rgb(0x22262E);
  theme.field = rgb(0x262B33);
  theme.field_hover = rgb(0x2F3540);
  theme.field_active = rgb(0x38404D);
  theme.line = rgb(0x2B3038);
  theme.text = rgb(0xE4E7EC);
  theme.dim = rgb(0x8B93A1);
  theme.accent = rgb(0x7FB4E6);
  theme.accent_fill = rgb(0x2A5580);
  theme.selection = rgb(0x2A3442);
  theme.hover = rgb(0x22272F);
  theme.shadow = with_alpha(rgb(0x000000), 120);
  return theme;
}

Theme light_theme() {
  Theme theme;
  theme.kind = ThemeKind::light;
  theme.ground = rgb(0xF4F5F7);
  theme.panel = rgb(0xFFFFFF);
  theme.raised = rgb(0xFAFBFC);
  theme.field = rgb(0xECEEF2);
  theme.field_hover = rgb(0xE2E6EC);
  theme.field_active = rgb(0xD5DAE2);
  theme.line = rgb(0xD8DCE2);
  theme.text = rgb(0x1B1F27);
  theme.dim = rgb(0x667080);
  theme.accent = rgb(0x1C69B3);
  theme.accent_fill = rgb(0xBFDAF2);
  theme.selection = rgb(0xDCE8F5);
  theme.hover = rgb(0xF1F4F8);
  theme.shadow = with_alpha(rgb(0x1B1F27), 60);
  return theme;
}

void set_lengths(ImGuiStyle& style) {
  style.WindowPadding = {10, 8};
  style.FramePadding = {8, 4};
  style.CellPadding = {8, 3};
  style.ItemSpacing = {8, 6};
  style.ItemInnerSpacing = {8, 4};
  style.IndentSpacing = 16;
  style.ScrollbarSize = 12;
  style.GrabMinSize = 12;
  style.WindowRounding = 0;
  style.ChildRounding = 0;
  style.FrameRounding = 4;
  style.PopupRounding = 4;
  style.GrabRounding = 4;
  style.ScrollbarRounding = 6;
  style.TabRounding = 4;
  style.WindowBorderSize = 0;
  style.ChildBorderSize = 0;
  style.FrameBorderSize = 0;
  style.TabBorderSize = 0;
  style.PopupBorderSize = 1;  // a popup may lie on a panel of nearly its colour
  style.WindowTitleAlign = {0.0F, 0.5F};
  style.WindowMenuButtonPosition = ImGuiDir_None;
  style.DisabledAlpha = 0.45F;
  style.ColumnsMinSpacing = 8;
}

void set_colours(ImGuiStyle& style, const Theme& theme) {
  const auto set = [&style](ImGuiCol index, ImU32 colour) {
    style.Colors[index] = ImGui::ColorConvertU32ToFloat4(colour);
  };
  constexpr ImU32 none = 0;
  for (const ImGuiCol i : {ImGuiCol_Text, ImGuiCol_PlotLines}) set(i, theme.text);
  set(ImGuiCol_TextDisabled, theme.dim);
  for (const ImGuiCol i :
       {ImGuiCol_WindowBg, ImGuiCol_TitleBg, ImGuiCol_TitleBgActive, ImGuiCol_TitleBgCollapsed,
        ImGuiCol_TabActive, ImGuiCol_TabUnfocusedActive}) {
    set(i, theme.panel);
  }
  for (const ImGuiCol i : {ImGuiCol_ChildBg, ImGuiCol_BorderShadow, ImGuiCol_ScrollbarBg,
                           ImGuiCol_TableRowBg, ImGuiCol_TableRowBgAlt, ImGuiCol_ResizeGrip}) {
    set(i, none);
  }
  for (const ImGuiCol i : {ImGuiCol_PopupBg, ImGuiCol_TableHeaderBg}) set(i, theme.raised);
  for (const ImGuiCol i : {ImGuiCol_MenuBarBg, ImGuiCol_Tab, ImGuiCol_TabUnfocused}) {
    set(i, theme.ground);
  }
  for (const ImGuiCol i : {ImGuiCol_FrameBg, ImGuiCol_Button, ImGuiCol_ScrollbarGrab}) {
    set(i, theme.field);
  }
  for (const ImGuiCol i : {ImGuiCol_FrameBgHovered, ImGuiCol_ButtonHovered, ImGuiCol_TabHovered,
                           ImGuiCol_ScrollbarGrabHovered, ImGuiCol_ResizeGripHovered}) {
    set(i, theme.field_hover);
  }
  for (const ImGuiCol i : {ImGuiCol_FrameBgActive, ImGuiCol_ButtonActive,
                           ImGuiCol_ScrollbarGrabActive, ImGuiCol_ResizeGripActive}) {
    set(i, theme.field_active);
  }
  for (const ImGuiCol i : {ImGuiCol_Border, ImGuiCol_Separator, ImGuiCol_TableBorderStrong,
                           ImGuiCol_TableBorderLight}) {
    set(i, theme.line);
  }
  for (const ImGuiCol i : {ImGuiCol_Header, ImGuiCol_HeaderActive}) set(i, theme.selection);
  set(ImGuiCol_HeaderHovered, theme.hover);
  for (const ImGuiCol i :
       {ImGuiCol_CheckMark, ImGuiCol_SliderGrab, ImGuiCol_SliderGrabActive,
        ImGuiCol_SeparatorHovered, ImGuiCol_SeparatorActive, ImGuiCol_NavHighlight,
        ImGuiCol_DragDropTarget, ImGuiCol_PlotLinesHovered, ImGuiCol_NavWindowingHighlight}) {
    set(i, theme.accent);
  }
  for (const ImGuiCol i :
       {ImGuiCol_PlotHistogram, ImGuiCol_PlotHistogramHovered, ImGuiCol_TextSelectedBg}) {
    set(i, theme.accent_fill);
  }
  for (const ImGuiCol i : {ImGuiCol_ModalWindowDimBg, ImGuiCol_NavWindowingDimBg}) {
    set(i, theme.shadow);
  }
}

}  // namespace

float Theme::px(float length) const {
  if (length <= 0.0F) return 0.0F;
  const auto whole = static_cast<int>(length * scale + 0.5F);
  return static_cast<float>(std::max(whole, 1));
}

Theme apply_theme(ThemeKind kind, float scale) {
  TESSERA_ASSERT(scale >= 0.5F && scale <= 4.0F, "the scale is 0.5 to 4");
  Theme theme = kind == ThemeKind::dark ? dark_theme() : light_theme();
  theme.scale = scale;
  theme.lane_px = theme.px(18);
  theme.lane_compact_px = theme.px(8);
  theme.row_px = theme.px(24);

  ImGuiStyle style;
  set_lengths(style);
  set_colours(style, theme);
  style.ScaleAllSizes(scale);
  style.PopupBorderSize = theme.px(1);
  ImGui::GetStyle() = style;
  return theme;
}

}  // namespace tessera::inspector
