// SPDX-License-Identifier: Apache-2.0
#include "inspector/app/banner.h"

#include <fmt/format.h>

#include "inspector/widgets/drawing.h"

namespace tessera::inspector {

float banner_height(const Surface& ui, const TraceModel& model) {
  return model.problems().empty() ? 0 : ui.theme.px(28);
}

void show_problem(TraceModel& model, ViewState& state, const Problem& problem) {
  if (model.recorded(problem.rank)) state.open_rank(problem.rank);
  if (!problem.time) return;
  state.step = model.step_at(*problem.time);
  const auto [begin, end] = model.step_range(state.step);
  // Much of what led to it, and a little of what came after.
  const Time shown = std::max<Time>((end - begin) / 4, 1000);
  const Time from = std::max<Time>(0, *problem.time - shown * 3 / 4);
  state.time.show(from, from + shown);
}

void draw_banner(const Surface& ui, TraceModel& model, ViewState& state, const Box& box) {
  if (model.problems().empty()) return;
  const Problem problem = model.problems().front();
  const Theme& theme = ui.theme;
  ImGui::GetWindowDrawList()->AddRectFilled(box.min, box.max,
                                            mix(theme.panel, ui.colours().fail, 56), theme.px(4));
  const std::size_t others = model.problems().size() - 1;
  const std::string count = others == 0 ? "" : fmt::format("and {} more", others);
  const float pad = theme.px(12);
  const float end = box.max.x - pad - text_width(ui.fonts.body, count);
  const float y = box.min.y + (box.height() - ui.fonts.body->FontSize) / 2;
  ImGui::PushFont(ui.fonts.body);
  draw_text(ui.fonts.body, {box.min.x + pad, y}, theme.text,
            fitted("⚠ " + problem.text, end - box.min.x - 2 * pad));
  ImGui::PopFont();
  draw_text(ui.fonts.body, {end, y}, theme.dim, count);
  state.fields["banner"] = problem.text;
  state.place("banner", box.min, box.max);
  if (!box.contains(ImGui::GetIO().MousePos) || !ImGui::IsWindowHovered()) return;
  std::string all;
  for (std::size_t k = 0; k < model.problems().size() && k < 20; ++k) {
    all += (k == 0 ? "" : "\n") + model.problems()[k].text;
  }
  ImGui::SetTooltip("%s", all.c_str());
  if (ImGui::IsMouseClicked(0)) show_problem(model, state, problem);
}

}  // namespace tessera::inspector
