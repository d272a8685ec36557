// SPDX-License-Identifier: Apache-2.0
// What keys do. Letters are GLFW's codes: ImGui 1.86 has no names for most of them.
#include <GLFW/glfw3.h>

#include <algorithm>

#include "inspector/app/app.h"
#include "inspector/app/panels.h"

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
  const SpanRef& chosen = *state_.selection;
  const std::int32_t op = model_->rank(chosen.rank).lane(chosen.stream)->spans.op[chosen.index];
  if (const auto span = model_->find(state_.rank, op)) state_.selection = span;
}

void App::step_span(int direction) {
  if (!state_.selection) return;
  SpanRef& chosen = *state_.selection;
  const auto count =
      static_cast<std::ptrdiff_t>(model_->rank(chosen.rank).lane(chosen.stream)->pyramid->size());
  const auto next = static_cast<std::ptrdiff_t>(chosen.index) + direction;
  if (next < 0 || next >= count) return;
  chosen.index = static_cast<std::size_t>(next);
  // Keep it in view.
  const auto& spans = model_->rank(chosen.rank).lane(chosen.stream)->spans;
  const Time length = state_.time.to() - state_.time.from();
  const Time begin = spans.begin[chosen.index];
  if (begin < state_.time.from() || spans.end[chosen.index] > state_.time.to()) {
    state_.time.show(begin - length / 2, begin - length / 2 + length);
  }
}

void App::frame_selection() {
  const auto step = model_->step_range(state_.step);
  if (!state_.selection) return state_.time.show(step.first, step.second);
  const SpanRef& chosen = *state_.selection;
  const auto& spans = model_->rank(chosen.rank).lane(chosen.stream)->spans;
  const Time begin = spans.begin[chosen.index], end = spans.end[chosen.index];
  const Time margin = std::max<Time>((end - begin) * 2, 1000);
  const TimeView framed(begin - margin, end + margin, model_->info().end);
  const bool already = framed.from() == state_.time.from() && framed.to() == state_.time.to();
  already ? state_.time.show(step.first, step.second)
          : state_.time.show(begin - margin, end + margin);
}

bool App::handle_keys(Surface& ui) {
  const ImGuiIO& io = ImGui::GetIO();
  if (io.WantTextInput) return false;
  auto pressed = [](int key) { return ImGui::IsKeyPressed(key, true); };
  const double speed = (io.KeyShift ? 3.0 : 1.0) * static_cast<double>(io.DeltaTime);
  bool moving = false;
  auto held = [&](int key) {
    const bool down = ImGui::IsKeyDown(key);
    moving |= down;
    return down;
  };
  if (held(GLFW_KEY_W)) state_.time.zoom(1 + 3 * speed, 0.5);
  if (held(GLFW_KEY_S)) state_.time.zoom(1 / (1 + 3 * speed), 0.5);
  if (held(GLFW_KEY_A)) state_.time.pan(-speed);
  if (held(GLFW_KEY_D)) state_.time.pan(speed);
  if (pressed(GLFW_KEY_UP)) step_rank(-1);
  if (pressed(GLFW_KEY_DOWN)) step_rank(1);
  if (pressed(GLFW_KEY_LEFT)) step_span(-1);
  if (pressed(GLFW_KEY_RIGHT)) step_span(1);
  if (pressed(GLFW_KEY_F)) frame_selection();
  if (pressed(GLFW_KEY_HOME)) state_.time.show(0, model_->info().end);
  for (const PanelRow& row : panel_rows()) {
    if (row.key != 0 && pressed(row.key)) state_.panel = row.name;  // GLFW's codes are ASCII
  }
  if (pressed(GLFW_KEY_SLASH) && io.KeyShift) state_.show_help = !state_.show_help;
  if (pressed(GLFW_KEY_T)) {
    ui.wish.kind = ui.theme.kind == ThemeKind::dark ? ThemeKind::light : ThemeKind::dark;
  }
  if (pressed(GLFW_KEY_ESCAPE)) {
    state_.selection.reset();
    state_.show_help = false;
  }
  return moving;
}

}  // namespace tessera::inspector
