// SPDX-License-Identifier: Apache-2.0
#include "inspector/widgets/memory_stack.h"

#include <algorithm>
#include <cmath>

namespace tessera::inspector {
namespace {

constexpr float plot_columns_max = 2000;  // more are not told apart, and cost a frame its time

// Memory that is reserved but not in use, in strokes where the rectangle has room for some. Of a
// tall plot they are further apart, so that many narrow rectangles are not thousands of strokes.
void draw_unused(const Surface& ui, ImVec2 low, ImVec2 high, float plot_height) {
  constexpr float strokes_max = 50;  // from the bottom to the top
  ImDrawList* draw = ImGui::GetWindowDrawList();
  const float step = std::max(ui.theme.px(8), std::ceil(plot_height / strokes_max));
  draw->AddRectFilled(low, high, ui.colours().of(MemoryClass::reserved_unused));
  if (high.x - low.x < step || high.y - low.y < ui.theme.px(3)) return;
  const Colour stroke = mix(ui.colours().of(MemoryClass::reserved_unused), ui.theme.dim, 110);
  draw->PushClipRect(low, high, true);
  // Strokes of neighbours meet, as they lie on one grid.
  const float tall = high.y - low.y;
  for (float x = std::floor((low.x - tall) / step) * step; x < high.x; x += step) {
    draw->AddLine({x, high.y}, {x + tall, low.y}, stroke, ui.theme.px(1));
  }
  draw->PopClipRect();
}

/// The bands of the stack from left to right. What keeps its place from one column to the next is
/// one rectangle, so that a band that does not change costs four vertices however wide it is.
class Bands {
 public:
  Bands(const Surface& ui, float plot_height, bool hatched)
      : ui_(ui), height_(plot_height), hatched_(hatched) {}

  /// The stack from x on; columns come from left to right.
  void column(float x, const MemoryStack& stack, const MemoryScale& scale) {
    double sum = 0;
    for (const MemoryClass c : device_memory_stack) {
      const auto bytes = static_cast<double>(stack[static_cast<std::size_t>(c)].value);
      const float y1 = scale.y_of(sum), y0 = scale.y_of(sum + bytes);
      sum += bytes;
      Band& band = bands_[static_cast<std::size_t>(c)];
      if (band.y0 == y0 && band.y1 == y1) continue;
      finish(c, x);
      band = {x, y0, y1};
    }
  }
  /// Nothing is there from x on.
  void end(float x) {
    for (const MemoryClass c : device_memory_stack) {
      finish(c, x);
      bands_[static_cast<std::size_t>(c)] = {};
    }
  }

 private:
  struct Band {
    float x = 0, y0 = 0, y1 = 0;
  };
  void finish(MemoryClass c, float x) {
    const Band& band = bands_[static_cast<std::size_t>(c)];
    if (band.y1 <= band.y0) return;
    if (c == MemoryClass::reserved_unused && hatched_) {
      draw_unused(ui_, {band.x, band.y0}, {x, band.y1}, height_);
    } else {
      ImGui::GetWindowDrawList()->AddRectFilled({band.x, band.y0}, {x, band.y1},
                                                ui_.colours().of(c));
    }
  }

  const Surface& ui_;
  float height_;  // of the plot
  bool hatched_;
  std::array<Band, memory_class_count> bands_{};
};

}  // namespace

float MemoryScale::y_of(double bytes) const {
  return std::floor(y1 - static_cast<float>(bytes / top) * (y1 - y0));
}

MemoryScale memory_scale(const TraceModel& model, const MemoryPyramid& memory, float y0, float y1) {
  const auto peak = static_cast<double>(memory.most_reserved().value);
  const auto capacity = static_cast<double>(model.run().memory_per_rank.value);
  const double top = capacity > 0 && capacity < 1.7 * peak ? std::max(peak, capacity) : peak;
  return {std::max(top, 1.0) * 1.08, y0, y1};
}

float plot_column_px(float width) { return std::floor(width / plot_columns_max) + 1; }

std::bitset<memory_class_count> draw_memory_stack(const Surface& ui, const MemoryPyramid& memory,
                                                  const TimeView& time, Time run_end,
                                                  const MemoryScale& scale,
                                                  const TimeStretch& stretch, MemoryDetail detail) {
  const auto [left, width] = stretch;
  std::bitset<memory_class_count> seen;
  const float wide = detail.column_px;
  // Nothing is known after the end of the run.
  const float last = std::min(width, time.x_of(run_end, 0, width));
  Bands bands(ui, scale.y1 - scale.y0, detail.hatched);
  std::ptrdiff_t shown = -1;
  for (float x = 0; x < last; x += wide) {
    const Time from = time.time_at(left + x, left, width);
    const Time to = time.time_at(left + x + wide, left, width);
    const std::ptrdiff_t sample = memory.highest(from, std::max(to, from + 1));
    if (sample == shown) continue;
    shown = sample;
    if (sample < 0) {
      bands.end(left + x);
      continue;
    }
    const MemoryStack stack = memory.stack(sample);
    for (std::size_t c = 0; c < stack.size(); ++c) {
      if (stack[c] > Bytes{}) seen.set(c);
    }
    bands.column(left + x, stack, scale);
  }
  bands.end(left + std::max(0.0F, std::ceil(last)));
  return seen;
}

}  // namespace tessera::inspector
