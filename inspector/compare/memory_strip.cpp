// SPDX-License-Identifier: Apache-2.0
#include "inspector/compare/memory_strip.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "inspector/widgets/drawing.h"
#include "inspector/widgets/format.h"

namespace tessera::inspector {
namespace {

constexpr float strip_least_px = 64, strip_most_px = 260, strip_gap_px = 12;
constexpr float strip_columns_max = 2000;

// The most that is allocated from `from` on; -1: nothing is known.
double highest_in(const MemoryPyramid& memory, Time from, Time to) {
  const std::ptrdiff_t sample = memory.highest(from, std::max(to, from + 1));
  return sample < 0 ? -1 : static_cast<double>(memory.allocated(sample).value);
}

Bytes peak_of(const MemoryPyramid& memory, Time from, Time to) {
  const std::ptrdiff_t sample = memory.highest(from, std::max(to, from + 1));
  return sample < 0 ? Bytes{} : memory.allocated(sample);
}

}  // namespace

float draw_compared_memory(const Surface& ui, TraceModel& model, ViewState& state,
                           const analysis::StepPairs& pairs, const Box& box) {
  const MemoryPyramid* const a = model.memory(pairs.rank).pyramid.get();
  const MemoryPyramid* const b = model.against()->memory(pairs.rank).pyramid.get();
  const Theme& theme = ui.theme;
  if (a == nullptr || b == nullptr) return box.min.y;
  const Time end_a = pairs.begin_a + pairs.time_a, end_b = pairs.begin_b + pairs.time_b;
  const Bytes peak_a = peak_of(*a, pairs.begin_a, end_a),
              peak_b = peak_of(*b, pairs.begin_b, end_b);
  const auto top =
      1.08 * static_cast<double>(std::max({peak_a.value, peak_b.value, std::int64_t{1}}));
  const TimeStretch stretch = time_stretch(box, theme.px(state.gutter), theme.px(8));
  const float height = std::clamp(box.height() - theme.px(strip_gap_px), theme.px(strip_least_px),
                                  theme.px(strip_most_px));
  const float low = box.min.y + height;
  const auto y_of = [&](double bytes) {
    return std::floor(low - static_cast<float>(bytes / top) * height);
  };
  ImDrawList* draw = ImGui::GetWindowDrawList();
  draw->AddRectFilled({stretch.left, low}, {stretch.left + stretch.width, low + 1}, theme.line);
  const float wide = std::floor(stretch.width / strip_columns_max) + 1;
  const Colour more = diverging(theme.kind, 0.8), less = diverging(theme.kind, -0.8);
  float before_a = -1, before_b = -1;
  const auto outline = [&](float x, float y, float before, Colour colour) {
    if (before >= 0 && before != y) {
      draw->AddRectFilled({x, std::min(y, before)}, {x + 1, std::max(y, before) + 1}, colour);
    }
    draw->AddRectFilled({x, y}, {x + wide, y + theme.px(1)}, colour);
  };
  for (float x = 0; x < stretch.width; x += wide) {
    const auto since = [&](float at) {
      return state.time.time_at(stretch.left + at, stretch.left, stretch.width) - pairs.begin_a;
    };
    const Time from = since(x), to = since(x + wide);
    const auto of = [&](const MemoryPyramid& memory, Time begin, Time length) {
      return from < 0 || from >= length ? -1 : highest_in(memory, begin + from, begin + to);
    };
    const double bytes_a = of(*a, pairs.begin_a, pairs.time_a);
    const double bytes_b = of(*b, pairs.begin_b, pairs.time_b);
    const float at = stretch.left + x;
    const float y_a = bytes_a < 0 ? -1 : y_of(bytes_a), y_b = bytes_b < 0 ? -1 : y_of(bytes_b);
    if (y_a >= 0 && y_b >= 0 && y_a != y_b) {
      draw->AddRectFilled({at, std::min(y_a, y_b)}, {at + wide, std::max(y_a, y_b)},
                          bytes_b > bytes_a ? more : less);
    }
    if (y_a >= 0) outline(at, y_a, before_a, theme.text);
    if (y_b >= 0) outline(at, y_b, before_b, theme.dim);
    before_a = y_a;
    before_b = y_b;
  }
  const float right = stretch.left - theme.px(8);
  draw_text_right(ui.fonts.small, {right, box.min.y}, theme.dim, "memory");
  const float line = ui.fonts.small->FontSize + theme.px(2);
  draw_text_right(ui.fonts.small, {right, box.min.y + line}, theme.text,
                  "A " + format_memory(peak_a));
  draw_text_right(ui.fonts.small, {right, box.min.y + 2 * line}, theme.dim,
                  "B " + format_memory(peak_b));
  state.fields["compare/memory"] =
      fmt::format("A {}, B {}", format_memory(peak_a), format_memory(peak_b));
  return low + theme.px(strip_gap_px);
}

}  // namespace tessera::inspector
