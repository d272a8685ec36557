// SPDX-License-Identifier: Apache-2.0
// What commands do, and which key press is which command.
#include <GLFW/glfw3.h>

#include <algorithm>

#include "inspector/app/app.h"
#include "inspector/app/commands.h"
#include "inspector/app/panels.h"
#include "inspector/model/search.h"

namespace tessera::inspector {

void App::step_rank(int direction) {
  const auto& ranks = model_->run().recorded_ranks;
  const auto at = std::find(ranks.begin(), ranks.end(), state_.rank);
  if (at == ranks.end()) return;
  const auto next = (at - ranks.begin()) + direction;
  if (next < 0 || next >= static_cast<std::ptrdiff_t>(ranks.size())) return;
  state_.rank = ranks[static_cast<std::size_t>(next)];
  state_.scroll_to_rank = true;
  if (!state_.selection) return;
  // The same op on the new rank.
  if (const auto span = model_->find(state_.rank, state_.selection->op)) state_.selection = span;
}

void App::step_span(int direction) {
  if (!state_.selection) return;
  SpanRef& chosen = *state_.selection;
  const LaneData* const lane =
      model_->around(chosen.rank, model_->op(chosen.op).step).lane(chosen.stream);
  const auto index = lane == nullptr ? std::nullopt : lane->find(chosen.op);
  if (!index) return;
  const auto next = static_cast<std::ptrdiff_t>(*index) + direction;
  if (next < 0 || next >= std::ssize(lane->spans.op)) return;
  chosen.op = lane->spans.op[static_cast<std::size_t>(next)];
  bring_into_view(chosen);
}

void App::step_match(int direction) {
  if (state_.search.empty()) {
    state_.show_palette = true;
    return;
  }
  const bool own = state_.selection && state_.selection->rank == state_.rank;
  const Time begin = own ? model_->times(*state_.selection).begin : state_.time.from();
  const bool in_view = begin >= state_.time.from() && begin <= state_.time.to();
  const SearchPlace from =
      own && in_view ? SearchPlace{begin, state_.selection->op} : SearchPlace{state_.time.from()};
  const auto found = next_match(*model_, state_.rank, state_.search, from, direction);
  if (!found) {
    take_along_.say("No operation \"" + state_.search + "\" " +
                    (direction > 0 ? "after this one" : "before this one") + " on rank " +
                    std::to_string(state_.rank) + (model_->is_long() ? " within 256 steps." : "."));
    return;
  }
  state_.selection = found;
  bring_into_view(*found);
}

void App::select_cause() {
  if (!state_.selection) return;
  select_first(model_->flow(*state_.selection).causes);
}

void App::select_use() {
  if (state_.selection) select_first(model_->flow(*state_.selection).uses);
}

void App::select_first(const std::vector<SpanRef>& spans) {
  if (spans.empty()) return;
  const SpanRef first = spans.front();  // looking at it replaces the flow
  state_.selection = first;
  bring_into_view(first);
}

// The step that most of the view shows.
std::int32_t App::step_in_view() const {
  return model_->step_at(state_.time.from() + (state_.time.to() - state_.time.from()) / 2);
}

void App::step_step(int direction) {
  if (model_->step_count() == 0) return;
  show_step(std::clamp(step_in_view() + direction, 0, model_->last_step()));
}

void App::show_step(std::int32_t step) {
  state_.step = step;
  const auto [begin, end] = model_->step_range(step);
  state_.time.show(begin, end);
}

void App::bring_into_view(const SpanRef& span) {
  const Time length = state_.time.to() - state_.time.from();
  const auto [begin, ready, end] = model_->times(span);
  if (begin >= state_.time.from() && end <= state_.time.to()) return;
  state_.time.show(begin - length / 2, begin - length / 2 + length);
}

void App::add_note() {
  const Time middle = state_.time.from() + (state_.time.to() - state_.time.from()) / 2;
  Time time = state_.cursor.value_or(middle);
  if (!state_.cursor && state_.selection) {
    const Time begin = model_->times(*state_.selection).begin;
    if (begin >= state_.time.from() && begin <= state_.time.to()) time = begin;
  }
  if (find_panel(state_.panel)->tab != find_panel("all")->tab) state_.panel = "all";
  state_.open_note = state_.notes.add(time);
}

void App::clear() {
  if (state_.open_note) return state_.close_note();
  if (!state_.show_help && !state_.show_palette) {
    state_.selection.reset();
    state_.measured.reset();
  }
  state_.show_help = false;
  state_.show_palette = false;
}

void App::frame_selection() {
  const auto step = model_->step_range(step_in_view());
  if (!state_.selection) return state_.time.show(step.first, step.second);
  const auto [begin, ready, end] = model_->times(*state_.selection);
  const Time margin = std::max<Time>((end - begin) * 2, 1000);
  const TimeView framed(begin - margin, end + margin, model_->info().end);
  const bool already = framed.from() == state_.time.from() && framed.to() == state_.time.to();
  already ? state_.time.show(step.first, step.second)
          : state_.time.show(begin - margin, end + margin);
}

// Zooming and panning last as long as keys are held; a tap within one frame counts as a frame.
// People let go of Ctrl before S, and have not zoomed out then.
void App::note_shortcuts(const Surface& ui) {
  std::erase_if(shortcuts_, [](int key) { return !ImGui::IsKeyDown(key); });
  for (const KeyPress& press : ui.presses) {
    if (press.repeat) continue;
    const bool with_others = (press.mods & ~GLFW_MOD_SHIFT) != 0;
    if (with_others) shortcuts_.insert(press.key);
    if (!with_others) shortcuts_.erase(press.key);
  }
}

bool App::move_by_held_keys(const Surface& ui) {
  const ImGuiIO& io = ImGui::GetIO();
  const double speed = (io.KeyShift ? 3.0 : 1.0) * static_cast<double>(io.DeltaTime);
  bool moving = false;
  const auto held = [&](const char* name) {
    const int key = find_command(name)->key;
    if (shortcuts_.contains(key)) return false;
    const bool tapped = std::any_of(ui.presses.begin(), ui.presses.end(), [&](const KeyPress& p) {
      return p.key == key && (p.mods & ~GLFW_MOD_SHIFT) == 0;
    });
    const bool down = !io.KeyCtrl && !io.KeyAlt && ImGui::IsKeyDown(key);
    moving |= down;
    return down || tapped;
  };
  const double anchor = state_.cursor_share.value_or(0.5);
  if (held("zoom/in")) state_.time.zoom(1 + 3 * speed, anchor);
  if (held("zoom/out")) state_.time.zoom(1 / (1 + 3 * speed), anchor);
  if (held("pan/left")) state_.time.pan(-speed);
  if (held("pan/right")) state_.time.pan(speed);
  return moving;
}

bool App::handle_keys(Surface& ui) {
  note_shortcuts(ui);
  if (ImGui::GetIO().WantTextInput) {
    for (const KeyPress& press : ui.presses) {
      if (press.key == GLFW_KEY_ESCAPE) clear();
    }
    return false;
  }
  for (const KeyPress& press : ui.presses) {
    constexpr int known = GLFW_MOD_SHIFT | GLFW_MOD_CONTROL | GLFW_MOD_ALT;
    for (const Command& command : commands()) {
      // Many keyboards have + above =.
      const int ignored = press.key == GLFW_KEY_EQUAL ? GLFW_MOD_SHIFT : 0;
      const bool meant =
          command.key == press.key && command.mods == (press.mods & known & ~ignored);
      if (meant && command.run != nullptr && (command.repeats || !press.repeat)) {
        command.run(*this, ui);
      }
    }
    for (const PanelRow& row : panel_rows()) {  // GLFW's codes are ASCII
      if (row.key == 0 || press.key != row.key || press.repeat) continue;
      if ((press.mods & known) == 0) state_.panel = row.name;
      if ((press.mods & known) == GLFW_MOD_CONTROL) SecondPanel::show(state_, row.name);
    }
  }
  return move_by_held_keys(ui);
}

}  // namespace tessera::inspector
