// SPDX-License-Identifier: Apache-2.0
#include "tests/inspector/render/sample_page.h"

#include <string>
#include <utility>

namespace tessera::inspector {
namespace {

void draw_lanes(Surface& ui) {
  ImDrawList& draw = *ImGui::GetWindowDrawList();
  const Palette& colours = ui.colours();
  const ImVec2 at = ImGui::GetCursorScreenPos();
  const float width = ImGui::GetContentRegionAvail().x;
  for (int i = 0; i < op_class_count; ++i) {
    const auto op = static_cast<OpClass>(i);
    const float y = at.y + static_cast<float>(i) * (ui.theme.lane_px + ui.theme.px(2));
    float x = at.x;
    for (int k = 0; x < at.x + width; ++k) {
      const float length = ui.theme.px(static_cast<float>(40 + 13 * ((k * 5 + i * 3) % 7)));
      const float end = x + length < at.x + width ? x + length : at.x + width;
      draw.AddRectFilled({x, y}, {end, y + ui.theme.lane_px}, colours.of(op));
      const std::string label = std::string(name_of(op)) + " " + std::to_string(k);
      draw.PushClipRect({x, y}, {end, y + ui.theme.lane_px}, true);
      draw.AddText(ui.fonts.small, ui.fonts.small->FontSize,
                   {x + ui.theme.px(4), y + ui.theme.px(2)}, text_on(colours.of(op)),
                   label.c_str());
      draw.PopClipRect();
      x = end + ui.theme.px(static_cast<float>(1 + 11 * ((k + i) % 3)));
    }
  }
  ImGui::Dummy({width, op_class_count * (ui.theme.lane_px + ui.theme.px(2))});
}

void draw_stack(Surface& ui) {
  ImDrawList& draw = *ImGui::GetWindowDrawList();
  const ImVec2 at = ImGui::GetCursorScreenPos();
  const float height = ui.theme.px(18) * static_cast<float>(device_memory_stack.size());
  float y = at.y + height;
  for (const MemoryClass c : device_memory_stack) {
    const float top = y - ui.theme.px(18);
    draw.AddRectFilled({at.x, top}, {at.x + ui.theme.px(120), y}, ui.colours().of(c));
    draw.AddText({at.x + ui.theme.px(130), top}, ui.theme.text, name_of(c).data(),
                 name_of(c).data() + name_of(c).size());
    y = top;
  }
  const ImVec2 host = {at.x, at.y + height + ui.theme.px(6)};
  float x = host.x;
  for (const MemoryClass c : host_memory_stack) {
    draw.AddRectFilled({x, host.y}, {x + ui.theme.px(60), host.y + ui.theme.px(18)},
                       ui.colours().of(c));
    x += ui.theme.px(60);
  }
  ImGui::Dummy({ui.theme.px(320), height + ui.theme.px(24)});
}

void draw_shapes(Surface& ui) {
  ImDrawList& draw = *ImGui::GetWindowDrawList();
  const ImVec2 at = ImGui::GetCursorScreenPos();
  const auto p = [&](float x, float y) {
    return ImVec2{at.x + ui.theme.px(x), at.y + ui.theme.px(y)};
  };
  draw.AddCircleFilled(p(20, 20), ui.theme.px(14), ui.theme.accent);
  draw.AddCircle(p(60, 20), ui.theme.px(14), ui.colours().fail, 0, ui.theme.px(2));
  draw.AddLine(p(90, 4), p(160, 36), ui.colours().warn, ui.theme.px(1));
  draw.AddTriangleFilled(p(180, 34), p(196, 4), p(212, 34), ui.colours().ok);
  draw.AddRectFilledMultiColor(p(230, 4), p(300, 36), ui.theme.panel, ui.theme.accent,
                               ui.theme.accent, ui.theme.panel);
  draw.AddRectFilled(p(310, 4), p(360, 36), ui.theme.shadow, ui.theme.px(8));
  ImGui::Dummy({ui.theme.px(360), ui.theme.px(40)});
}

Texture heat_map() {
  Texture texture{.width = 48, .height = 6};
  for (int i = 0; i < texture.width * texture.height; ++i) {
    texture.pixels.push_back(sequential((i * 37 % 101) / 100.0 * (i % 48) / 48.0));
  }
  return texture;
}

}  // namespace

void SamplePage::draw(Surface& ui) {
  if (heat == nullptr) heat = ui.textures.create(heat_map());
  const ImGuiIO& io = ImGui::GetIO();
  ImGui::SetNextWindowPos({0, 0});
  ImGui::SetNextWindowSize(io.DisplaySize);
  ImGui::Begin("page", nullptr, ImGuiWindowFlags_NoDecoration | ImGuiWindowFlags_NoMove);
  ImGui::PushFont(ui.fonts.title);
  ImGui::TextUnformatted("run 0417");
  ImGui::PopFont();
  ImGui::SameLine();
  ImGui::TextDisabled("llama-7b · FSDP · 64 ranks × 7 steps → 1.1 M spans, Δ ≤ 3 µs");
  if (ImGui::Button("Compare")) ++clicks;
  ImGui::SameLine();
  ImGui::Text("%d clicks", clicks);
  ImGui::SameLine();
  ImGui::Checkbox("exposed only", &exposed);
  ImGui::SameLine();
  ImGui::PushFont(ui.fonts.mono);
  ImGui::SetNextItemWidth(ui.theme.px(260));
  ImGui::InputText("##query", query, sizeof(query));
  ImGui::PopFont();
  ImGui::Separator();
  draw_lanes(ui);
  ImGui::Separator();
  draw_stack(ui);
  ImGui::SameLine();
  ImGui::BeginGroup();
  ImGui::PushFont(ui.fonts.strong);
  ImGui::TextUnformatted("Step time");
  ImGui::PopFont();
  ImGui::Image(heat, {ui.theme.px(384), ui.theme.px(48)});
  draw_shapes(ui);
  if (ImGui::BeginTable("rows", 3, ImGuiTableFlags_RowBg | ImGuiTableFlags_BordersInnerH)) {
    for (const char* name : {"rank", "kind", "time"}) ImGui::TableSetupColumn(name);
    ImGui::TableHeadersRow();
    for (int i = 0; i < 3; ++i) {
      ImGui::TableNextRow();
      ImGui::TableNextColumn();
      ImGui::Selectable(std::to_string(1117 * i).c_str(), i == 1,
                        ImGuiSelectableFlags_SpanAllColumns);
      ImGui::TableNextColumn();
      ImGui::TextUnformatted(i == 1 ? "⚠ late" : "✓ on time");
      ImGui::TableNextColumn();
      ImGui::Text("%d.%03d ms", 11 * i, 874 - 111 * i);
    }
    ImGui::EndTable();
  }
  ImGui::EndGroup();
  ImGui::End();
}

}  // namespace tessera::inspector
