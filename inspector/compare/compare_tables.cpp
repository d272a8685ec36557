// SPDX-License-Identifier: Apache-2.0
// What Compare says in rows below the lanes.
#include <fmt/format.h>

#include <algorithm>

#include "inspector/compare/compare_panel.h"
#include "inspector/compare/signed_text.h"
#include "inspector/widgets/drawing.h"

namespace tessera::inspector {
namespace {

constexpr Time chance_part = 20;  // what may be chance is shown from that part of all on

}  // namespace

// Why the median step of B takes longer or shorter, over the whole run.
float ComparePanel::draw_causes(Surface& ui, ViewState& state, const Box& box) const {
  float y = box.min.y;
  const float wide = box.width(), number = ui.theme.px(90);
  const auto say = [&](ImFont* font, Colour colour, const std::string& words, float room) {
    // Lines stand beside those of the table.
    const float above = (ui.theme.row_px - font->FontSize) / 2;
    return draw_wrapped(font, {box.min.x, y + above}, colour, words, room) + 2 * above;
  };
  if (!comparison_) {
    return y + say(ui.fonts.body, ui.theme.dim, "Comparing all steps of both runs …", wide);
  }
  if (!comparison_->ok()) {
    return y + say(ui.fonts.body, ui.colours().warn, "⚠ " + comparison_->status().message(), wide);
  }
  const analysis::Comparison& c = **comparison_;
  const Time difference = c.b.step - c.a.step;
  y += say(ui.fonts.strong, ui.theme.text,
           difference == 0
               ? std::string("Steps take as long in both runs")
               : fmt::format("Why the median step of B takes {} {}",
                             format_time(std::abs(difference)), difference > 0 ? "longer" : "less"),
           wide);
  const bool roomy = wide > 3 * number;
  const auto row = [&](const analysis::Cause& cause, Colour colour) {
    const std::string time = signed_time(cause.time);
    if (roomy) {
      const float above = (ui.theme.row_px - ui.fonts.body->FontSize) / 2;
      draw_text_right(ui.fonts.body, {box.max.x, y + above}, colour, time);
    }
    y += say(ui.fonts.body, colour, roomy ? cause.what : cause.what + ": " + time,
             roomy ? wide - number : wide);
    return cause.what + " " + time;
  };
  for (std::size_t k = 0; k < c.causes.size(); ++k) {
    state.fields[fmt::format("compare/cause/{}", k)] = row(c.causes[k], ui.theme.text);
  }
  // What is left of the difference, though nobody can tell whether it is one.
  std::size_t number_of_chance = 0;
  for (const analysis::Cause& cause : c.chance) {
    if (chance_part * std::abs(cause.time) < std::abs(difference)) continue;
    if (number_of_chance == 0) {
      y += say(ui.fonts.small, ui.theme.dim,
               "Perhaps chance, as steps of one run differ by more:", wide);
    }
    state.fields[fmt::format("compare/chance/{}", number_of_chance++)] = row(cause, ui.theme.dim);
  }
  return y + ui.theme.px(10);
}

float ComparePanel::draw_kinds(Surface& ui, ViewState& state, const Box& box) const {
  if (!pairs_->ok()) return box.min.y;
  const Theme& theme = ui.theme;
  const float number = theme.px(88), line = theme.row_px;
  const int numbers = std::clamp(static_cast<int>((box.width() - theme.px(140)) / number), 1, 5);
  const float name_room = box.width() - number * static_cast<float>(numbers);
  // The most telling columns are the last to go: count and A first, then what steps scatter by.
  const int end = numbers < 3 ? numbers + 2 : 5, first = end - numbers;
  float y = box.min.y;
  const auto cells = [&](const std::string& name, const std::vector<std::string>& values,
                         ImFont* of_name, ImFont* font, Colour colour) {
    ImGui::PushFont(of_name);
    draw_text(of_name, {box.min.x, y + (line - of_name->FontSize) / 2}, theme.text,
              fitted(name, name_room));
    ImGui::PopFont();
    for (int k = first; k < end; ++k) {
      draw_text_right(
          font,
          {box.max.x - number * static_cast<float>(end - 1 - k), y + (line - font->FontSize) / 2},
          colour, values[static_cast<std::size_t>(k)]);
    }
    y += line;
  };
  cells("In this step", {"count", "A", "B − A", "median", "95 % within"}, ui.fonts.strong,
        ui.fonts.small, theme.dim);
  int k = 0;
  for (const analysis::ComparedKind& kind : (*pairs_)->kinds) {
    const std::string difference = signed_time(kind.b - kind.a);
    cells(kind.what,
          {format_count(kind.count), format_time(kind.a), difference, signed_share(kind.median),
           format_percent(kind.p95)},
          ui.fonts.body, ui.fonts.body, theme.text);
    state.fields[fmt::format("compare/kind/{}", k++)] = kind.what + " " + difference;
  }
  return y + theme.px(10);
}

}  // namespace tessera::inspector
