// SPDX-License-Identifier: Apache-2.0
#include "inspector/timeline/note_flags.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "inspector/timeline/time_header.h"
#include "inspector/widgets/drawing.h"

namespace tessera::inspector {
namespace {

constexpr float editor_width = 300;
constexpr float longest_flag = 220;

/// The flag of a note: as wide as its text, up to `next`.
Box flag_box(const Surface& ui, const Note& note, float x, float next, const Box& box) {
  const float pad = ui.theme.px(4);
  const float words = note.text.empty() ? 0 : text_width(ui.fonts.small, note.text) + 2 * pad;
  const float room = std::max(ui.theme.px(8), next - x - ui.theme.px(2));
  const float wide = std::min({std::max(ui.theme.px(8), words), ui.theme.px(longest_flag), room});
  const float bottom = box.min.y + time_header_height(ui);
  return {{x, bottom - ui.fonts.small->FontSize - pad}, {x + wide, bottom}};
}

void draw_note_editor(Surface& ui, ViewState& state, ImVec2 at) {
  const std::size_t place = *state.open_note;
  const float right = ImGui::GetIO().DisplaySize.x - ui.theme.px(editor_width + 8);
  ImGui::SetNextWindowPos({std::max(0.0F, std::min(at.x, right)), at.y + ui.theme.px(4)});
  ImGui::SetNextWindowSize({ui.theme.px(editor_width), 0});
  ImGui::Begin("note", nullptr,
               ImGuiWindowFlags_NoDecoration | ImGuiWindowFlags_NoMove |
                   ImGuiWindowFlags_NoSavedSettings | ImGuiWindowFlags_AlwaysAutoResize);
  std::array<char, 200> text{};
  const std::string& old = state.notes.all()[place].text;
  std::copy_n(old.begin(), std::min(old.size(), text.size() - 1), text.begin());
  if (ImGui::IsWindowAppearing()) ImGui::SetKeyboardFocusHere();
  ImGui::SetNextItemWidth(-1);
  const bool entered = ImGui::InputTextWithHint("##note", "what is here", text.data(), text.size(),
                                                ImGuiInputTextFlags_EnterReturnsTrue);
  state.place("note/text", ImGui::GetItemRectMin(), ImGui::GetItemRectMax());
  state.notes.set_text(place, text.data());
  bool removed = false;
  if (tab_button(ui, state, "Remove", "note/remove", false)) removed = true;
  ImGui::SameLine();
  ImGui::TextDisabled("Enter keeps it");
  ImGui::End();
  if (removed) state.notes.remove(place);
  if (removed || entered) state.close_note();
}

}  // namespace

void draw_note_flags(Surface& ui, ViewState& state, const Box& box) {
  const TimeStretch stretch = time_stretch(box, ui.theme.px(state.gutter), ui.theme.px(8));
  const std::vector<Note>& notes = state.notes.all();
  const float right = stretch.left + stretch.width;
  const auto x_of = [&](Time time) {
    return std::floor(state.time.x_of(time, stretch.left, stretch.width));
  };
  ImDrawList* draw = ImGui::GetWindowDrawList();
  std::optional<ImVec2> editor;
  for (std::size_t k = 0; k < notes.size(); ++k) {
    const float x = x_of(notes[k].time);
    if (x < stretch.left || x > right) continue;
    const float next = k + 1 < notes.size() ? std::min(right, x_of(notes[k + 1].time)) : right;
    const Box flag = flag_box(ui, notes[k], x, next, box);
    draw->AddRectFilled({x, flag.min.y}, {x + 1, box.max.y}, ui.theme.accent);
    draw->AddRectFilled(flag.min, flag.max, ui.theme.accent, ui.theme.px(2));
    ImGui::PushFont(ui.fonts.small);
    const std::string words = fitted(notes[k].text, flag.max.x - flag.min.x - ui.theme.px(6));
    ImGui::PopFont();
    draw_text(ui.fonts.small, {x + ui.theme.px(4), flag.min.y + ui.theme.px(2)},
              text_on(ui.theme.accent), words);
    state.place(fmt::format("note/{}", k), flag.min, flag.max);
    state.fields[fmt::format("note/{}", k)] = notes[k].text;
    if (flag.contains(ImGui::GetIO().MousePos) && ImGui::IsWindowHovered() &&
        ImGui::IsMouseClicked(0)) {
      state.open_note = k;
    }
    if (state.open_note == k) editor = ImVec2{x, flag.max.y};
  }
  if (!state.note_problem.empty()) {
    draw_text(ui.fonts.small, {stretch.left, box.min.y + time_header_height(ui)}, ui.colours().fail,
              "⚠ " + state.note_problem);
  }
  if (state.open_note && !editor) state.close_note();  // it was moved out of view
  if (editor) draw_note_editor(ui, state, *editor);
}

}  // namespace tessera::inspector
