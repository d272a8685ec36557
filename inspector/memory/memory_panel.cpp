// SPDX-License-Identifier: Apache-2.0
#include "inspector/memory/memory_panel.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "inspector/widgets/drawing.h"
#include "inspector/widgets/format.h"

namespace tessera::inspector {
namespace {

struct Scale {
  double top;  // bytes at the upper edge
  float y0, y1;
  float y_of(double bytes) const {
    return std::floor(y1 - static_cast<float>(bytes / top) * (y1 - y0));
  }
};

// The capacity belongs on the scale when the run comes near it.
double top_of(const TraceModel& model, const MemoryPyramid& memory) {
  const auto last = static_cast<std::ptrdiff_t>(memory.size()) - 1;
  const auto peak = static_cast<double>(memory.reserved(last).value);
  const auto capacity = static_cast<double>(model.run().memory_per_rank.value);
  const double top = capacity > 0 && capacity < 1.7 * peak ? std::max(peak, capacity) : peak;
  return std::max(top, 1.0) * 1.08;
}

// 1, 2 or 5 times a power of two KiB, MiB, GiB: about four lines.
double grid_step(double top) {
  double unit = 1;
  while (unit * 1024 <= top) unit *= 1024;
  for (double factor = 1;; factor *= 10) {
    for (double digit : {1.0, 2.0, 5.0}) {
      if (top / (digit * factor * unit) <= 5) return digit * factor * unit;
    }
  }
}

void draw_grid(const Surface& ui, const Scale& scale, const Box& box, float left) {
  const double step = grid_step(scale.top);
  for (double bytes = 0; bytes < scale.top; bytes += step) {
    const float y = scale.y_of(bytes);
    ImGui::GetWindowDrawList()->AddRectFilled({left, y}, {box.max.x, y + 1}, ui.theme.line);
    if (y < box.min.y + ui.theme.px(48)) break;  // the title is there
    draw_text_right(ui.fonts.small, {left - ui.theme.px(8), y - ui.fonts.small->FontSize / 2},
                    ui.theme.dim, format_memory(Bytes{static_cast<std::int64_t>(bytes)}));
  }
}

void draw_columns(const Surface& ui, const MemoryPyramid& memory, const ViewState& state,
                  const Scale& scale, float left, float width) {
  ImDrawList* draw = ImGui::GetWindowDrawList();
  const int columns = std::max(1, static_cast<int>(width));
  auto sample_at = [&](int c) {
    const Time from = state.time.time_at(left + static_cast<float>(c), left, width);
    const Time to = state.time.time_at(left + static_cast<float>(c + 1), left, width);
    return memory.highest(from, std::max(to, from + 1));
  };
  // Columns that show the same moment are one rectangle per class.
  for (int c = 0; c < columns;) {
    const std::ptrdiff_t sample = sample_at(c);
    int end = c + 1;
    while (end < columns && sample_at(end) == sample) ++end;
    if (sample >= 0) {
      const MemoryStack stack = memory.stack(sample);
      double sum = 0;
      for (MemoryClass memory_class : device_memory_stack) {
        const auto bytes = static_cast<double>(stack[static_cast<std::size_t>(memory_class)].value);
        const float y1 = scale.y_of(sum), y0 = scale.y_of(sum + bytes);
        sum += bytes;
        if (y1 <= y0) continue;
        draw->AddRectFilled({left + static_cast<float>(c), y0},
                            {left + static_cast<float>(end), y1}, ui.colours().of(memory_class));
      }
    }
    c = end;
  }
}

void draw_capacity(const Surface& ui, const TraceModel& model, const Scale& scale, const Box& box,
                   float left) {
  const auto capacity = static_cast<double>(model.run().memory_per_rank.value);
  if (capacity <= 0 || capacity >= scale.top) return;
  const float y = scale.y_of(capacity);
  draw_dashes(left, box.max.x, y, ui.colours().fail, ui.theme.px(5));
  const std::string label = "capacity " + format_memory(model.run().memory_per_rank);
  draw_text_right(ui.fonts.small, {box.max.x - ui.theme.px(6), y + ui.theme.px(3)}, ui.theme.dim,
                  label);
}

void draw_peak(const Surface& ui, const MemoryPyramid& memory, const ViewState& state,
               const Scale& scale, float left, float width) {
  const std::ptrdiff_t peak = memory.highest(state.time.from(), state.time.to());
  if (peak < 0) return;
  const float x = std::clamp(state.time.x_of(memory.time(peak), left, width), left, left + width);
  const float y = scale.y_of(static_cast<double>(memory.allocated(peak).value));
  const float r = ui.theme.px(4);
  ImGui::GetWindowDrawList()->AddTriangleFilled({x - r, y - 2 * r}, {x + r, y - 2 * r}, {x, y - 2},
                                                ui.theme.text);
  const std::string label = "peak " + format_memory(memory.allocated(peak));
  const float w = text_width(ui.fonts.small, label);
  const float at = x + r + w + 4 > left + width ? x - r - w - 4 : x + r + 4;
  draw_text(ui.fonts.small, {at, y - ui.fonts.small->FontSize - 2}, ui.theme.text, label);
}

void draw_classes(const Surface& ui, const MemoryPyramid& memory, const ViewState& state,
                  const Box& box) {
  const std::ptrdiff_t sample =
      state.cursor ? memory.at(*state.cursor) : memory.highest(state.time.from(), state.time.to());
  const MemoryStack stack = memory.stack(sample);
  const float x = box.min.x + ui.theme.px(16);
  const float right = box.max.x - ui.theme.px(16);
  float y = box.min.y + ui.theme.px(10);
  draw_text(ui.fonts.strong, {x, y}, ui.theme.text, state.cursor ? "At the cursor" : "At the peak");
  draw_text_right(ui.fonts.strong, {right, y}, ui.theme.text,
                  format_memory(memory.allocated(sample)));
  y += ui.fonts.strong->FontSize + ui.theme.px(7);
  const float row = ui.fonts.small->FontSize + ui.theme.px(6);
  for (auto it = device_memory_stack.rbegin(); it != device_memory_stack.rend(); ++it) {
    const Bytes bytes = stack[static_cast<std::size_t>(*it)];
    if (bytes == Bytes{} || y + row > box.max.y - ui.theme.px(100)) continue;
    draw_swatch(ui, {x, std::floor(y + ui.theme.px(2))}, ui.colours().of(*it),
                *it == MemoryClass::reserved_unused);
    draw_text(ui.fonts.small, {x + ui.theme.px(17), y}, ui.theme.text, std::string(name_of(*it)));
    draw_text_right(ui.fonts.small, {right, y}, ui.theme.dim, format_memory(bytes));
    y += row;
  }
}

void draw_operation_legend(const Surface& ui, const Box& box) {
  const float x = box.min.x + ui.theme.px(16);
  const float half = (box.width() - ui.theme.px(32)) / 2;
  const float row = ui.fonts.small->FontSize + ui.theme.px(5);
  const float y = box.max.y - ui.theme.px(8) - row * (op_class_count / 2);
  ImGui::GetWindowDrawList()->AddRectFilled({x, y - ui.theme.px(8)},
                                            {x + 2 * half, y - ui.theme.px(7)}, ui.theme.line);
  for (int c = 0; c < op_class_count; ++c) {
    const auto op_class = static_cast<OpClass>(c);
    const ImVec2 at{x + static_cast<float>(c % 2) * half, y + static_cast<float>(c / 2) * row};
    draw_swatch(ui, {at.x, std::floor(at.y + ui.theme.px(2))}, ui.colours().of(op_class), false);
    draw_text(ui.fonts.small, {at.x + ui.theme.px(17), at.y}, ui.theme.text,
              std::string(name_of(op_class)));
  }
}

}  // namespace

void draw_memory_legend(const Surface& ui, TraceModel& model, const ViewState& state,
                        const Box& box) {
  ImGui::GetWindowDrawList()->AddRectFilled(box.min, box.max, ui.theme.panel);
  draw_operation_legend(ui, box);
  const RankData& rank = model.rank(state.rank);
  if (rank.memory == nullptr || rank.memory->size() == 0) return;
  draw_classes(ui, *rank.memory, state, box);
}

void draw_memory_panel(Surface& ui, TraceModel& model, ViewState& state, const Box& box) {
  ImDrawList* draw = ImGui::GetWindowDrawList();
  const Theme& theme = ui.theme;
  draw->AddRectFilled(box.min, box.max, theme.panel);
  state.place("memory", box.min, box.max);
  draw_text(ui.fonts.strong, {box.min.x + theme.px(12), box.min.y + theme.px(8)}, theme.text,
            "Memory");
  draw_text(ui.fonts.small, {box.min.x + theme.px(12), box.min.y + theme.px(27)}, theme.dim,
            fmt::format("rank {}", state.rank));
  const RankData& rank = model.rank(state.rank);
  const TimeStretch stretch = time_stretch(box, theme.px(gutter_px), theme.px(8));
  const float left = stretch.left, width = stretch.width;
  if (rank.memory == nullptr || rank.memory->size() == 0) {
    draw_text(ui.fonts.body, {left, box.min.y + theme.px(8)}, theme.dim,
              "No memory samples were recorded for this rank.");
    return;
  }
  const MemoryPyramid& memory = *rank.memory;
  const Scale scale{top_of(model, memory), box.min.y + theme.px(8), box.max.y - theme.px(10)};
  draw_grid(ui, scale, {box.min, {left + width, box.max.y}}, left);
  draw_columns(ui, memory, state, scale, left, width);
  draw_capacity(ui, model, scale, {box.min, {left + width, box.max.y}}, left);
  draw_peak(ui, memory, state, scale, left, width);
  if (!memory.consistent()) {
    draw_text(ui.fonts.strong, {left + theme.px(8), box.min.y + theme.px(8)}, ui.colours().fail,
              "⚠ the classes do not sum to the allocator's counter");
  }
  const ImGuiIO& io = ImGui::GetIO();
  const Box plot{{left, box.min.y}, {left + width, box.max.y}};
  if (plot.contains(io.MousePos) && ImGui::IsWindowHovered()) {
    state.cursor = state.time.time_at(io.MousePos.x, left, width);
    if (io.MouseWheel != 0) {
      state.time.zoom(std::pow(1.25, io.MouseWheel), (io.MousePos.x - left) / width);
    }
  }
  if (plot.contains(io.MouseClickedPos[0]) && ImGui::IsMouseDragging(0, 4)) {
    state.time.pan(-io.MouseDelta.x / width);
  }
}

}  // namespace tessera::inspector
