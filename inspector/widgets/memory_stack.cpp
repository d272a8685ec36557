// SPDX-License-Identifier: Apache-2.0
#include "inspector/widgets/memory_stack.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace tessera::inspector {
namespace {

constexpr float plot_columns_max = 2000;  // more are not told apart, and cost a frame its time

struct Band {
  float x0 = 0, x1 = 0, y0 = 0, y1 = 0;
};

// Strokes over memory that is reserved but not in use: diagonals of the whole plot, each drawn
// where it lies within one of the bands, which follow one another. So strokes of neighbours meet,
// and many narrow bands are not thousands of strokes.
void draw_strokes(const Surface& ui, const std::vector<Band>& bands, float plot_height) {
  constexpr float strokes_max = 50;  // from the bottom to the top
  constexpr float least = 2;         // px: shorter ones are dots
  if (bands.empty()) return;
  float top = bands.front().y0, bottom = bands.front().y1;
  for (const Band& band : bands) {
    top = std::min(top, band.y0);
    bottom = std::max(bottom, band.y1);
  }
  const float step = std::max(ui.theme.px(8), std::ceil(plot_height / strokes_max));
  const Colour stroke = mix(ui.colours().of(MemoryClass::reserved_unused), ui.theme.dim, 110);
  ImDrawList* draw = ImGui::GetWindowDrawList();
  draw->PushClipRect({bands.front().x0, top}, {bands.back().x1, bottom}, true);  // ends are blunt
  // A diagonal has x + y = `sum`.
  const float last = bands.back().x1 + bottom;
  for (float sum = std::floor((bands.front().x0 + top) / step) * step; sum < last; sum += step) {
    float from = 0, to = 0;
    const auto finish = [&] {
      if (to - from < least) return;
      draw_diagonal(ui, {from, sum - from}, {to, sum - to}, stroke);
    };
    auto band = std::partition_point(bands.begin(), bands.end(),
                                     [&](const Band& b) { return b.x1 <= sum - bottom; });
    for (; band != bands.end() && band->x0 < sum - top; ++band) {
      const float x0 = std::max(band->x0, sum - band->y1);
      const float x1 = std::min(band->x1, sum - band->y0);
      if (x1 <= x0) continue;
      if (x0 > to) {
        finish();
        from = x0;
      }
      to = x1;
    }
    finish();
  }
  draw->PopClipRect();
}

/// The bands of the stack from left to right. What keeps its place from one column to the next is
/// one rectangle, so that a band that does not change costs four vertices however wide it is.
class Bands {
 public:
  explicit Bands(const Surface& ui) : ui_(ui) {}

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
      band = {x, x, y0, y1};
    }
  }
  /// Nothing is there from x on.
  void end(float x) {
    for (const MemoryClass c : device_memory_stack) {
      finish(c, x);
      bands_[static_cast<std::size_t>(c)] = {};
    }
  }

  /// What is reserved and not in use.
  const std::vector<Band>& unused() const { return unused_; }

 private:
  void finish(MemoryClass c, float x) {
    Band band = bands_[static_cast<std::size_t>(c)];
    band.x1 = x;
    if (band.y1 <= band.y0) return;
    ImGui::GetWindowDrawList()->AddRectFilled({band.x0, band.y0}, {band.x1, band.y1},
                                              ui_.colours().of(c));
    if (c == MemoryClass::reserved_unused) unused_.push_back(band);
  }

  const Surface& ui_;
  std::array<Band, memory_class_count> bands_{};
  std::vector<Band> unused_;
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
  Bands bands(ui);
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
  if (detail.hatched) draw_strokes(ui, bands.unused(), scale.y1 - scale.y0);
  return seen;
}

}  // namespace tessera::inspector
