// SPDX-License-Identifier: Apache-2.0
#include "inspector/memory/memory_panel.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "inspector/widgets/drawing.h"
#include "inspector/widgets/format.h"
#include "inspector/widgets/memory_stack.h"
#include "inspector/widgets/value_axis.h"

namespace tessera::inspector {
namespace {

constexpr float host_strip_height = 38;
void draw_grid(const Surface& ui, const MemoryScale& scale, const Box& box, float left) {
  const double step = round_step(scale.top, AxisUnit::memory);
  const float tall = ui.fonts.small->FontSize;
  float above = scale.y1 + 2 * tall;  // the last label
  for (double bytes = 0; bytes < scale.top; bytes += step) {
    const float y = scale.y_of(bytes);
    ImGui::GetWindowDrawList()->AddRectFilled({left, y}, {box.max.x, y + 1}, ui.theme.line);
    // The title is above.
    const float label = std::max(y - tall / 2, scale.y0 - ui.theme.px(2));
    if (above - label < tall) continue;  // no room for both
    draw_text_right(ui.fonts.small, {left - ui.theme.px(8), label}, ui.theme.dim,
                    format_memory(Bytes{static_cast<std::int64_t>(bytes)}));
    above = label;
  }
}

// What a rank holds on the host or on drives: a strip of its own scale below the device's memory,
// with its highest moment in view, as no trace says how much there is.
void draw_host_strip(const Surface& ui, const HostMemory& host, ViewState& state, Time run_end,
                     const Box& box, float gutter_left) {
  const MemoryPyramid& memory = *host.pyramid;
  const float width = box.width();
  Bytes run_peak{};
  if (const auto highest = memory.highest(0, std::max<Time>(run_end, 1)); highest >= 0) {
    run_peak = memory.allocated(highest);
  }
  const double top = std::max(1.0, 1.15 * static_cast<double>(run_peak.value));
  const float wide = plot_column_px(width);
  const float last = std::min(width, state.time.x_of(run_end, 0, width));
  ImDrawList* draw = ImGui::GetWindowDrawList();
  draw->AddRectFilled({box.min.x, box.max.y}, {box.max.x, box.max.y + 1}, ui.theme.line);
  float from_x = 0, high = 0;
  const auto finish = [&](float x) {
    if (high > 0) {
      draw->AddRectFilled({box.min.x + from_x, box.max.y - high}, {box.min.x + x, box.max.y},
                          ui.colours().of(host.memory_class));
    }
  };
  for (float x = 0; x < last; x += wide) {
    const Time from = state.time.time_at(x, 0, width), to = state.time.time_at(x + wide, 0, width);
    const std::ptrdiff_t sample = memory.highest(from, std::max(to, from + 1));
    const auto bytes = static_cast<double>(memory.allocated(sample).value);
    const float tall = std::ceil(static_cast<float>(bytes / top) * box.height());
    if (tall == high) continue;
    finish(x);
    from_x = x;
    high = tall;
  }
  finish(std::max(0.0F, std::ceil(last)));
  const std::ptrdiff_t peak = memory.highest(state.time.from(), state.time.to());
  const std::string bytes = format_memory(memory.allocated(peak));
  const float right = box.min.x - ui.theme.px(8);
  const std::string word = host.memory_class == MemoryClass::nvme_staging ? "drive" : "host";
  draw_text_right(ui.fonts.small, {right, box.max.y - 2 * ui.fonts.small->FontSize}, ui.theme.dim,
                  text_width(ui.fonts.small, word) < right - gutter_left ? word : "");
  draw_text_right(ui.fonts.small, {right, box.max.y - ui.fonts.small->FontSize}, ui.theme.text,
                  bytes);
  state.fields["memory/" + word] = bytes;
}

// A line of text on a ground of its own: what lies below has any colour.
void draw_note(const Surface& ui, const Box& box, Colour colour, const std::string& words) {
  const float pad = ui.theme.px(4);
  ImGui::GetWindowDrawList()->AddRectFilled(box.min, box.max, with_alpha(ui.theme.ground, 220),
                                            ui.theme.px(2));
  draw_text(ui.fonts.small, {box.min.x + pad, box.min.y + pad / 2}, colour, words);
}

ImVec2 note_size(const Surface& ui, const std::string& words) {
  const float pad = ui.theme.px(4);
  return {text_width(ui.fonts.small, words) + 2 * pad, ui.fonts.small->FontSize + pad};
}

// Returns where its label is.
Box draw_peak(const Surface& ui, const MemoryPyramid& memory, const ViewState& state,
              const MemoryScale& scale, float left, float width) {
  const std::ptrdiff_t peak = memory.highest(state.time.from(), state.time.to());
  if (peak < 0) return {};
  const float x = std::clamp(state.time.x_of(memory.time(peak), left, width), left, left + width);
  const float y = scale.y_of(static_cast<double>(memory.allocated(peak).value));
  const float r = ui.theme.px(4);
  ImGui::GetWindowDrawList()->AddTriangleFilled({x - r, y - 2 * r}, {x + r, y - 2 * r}, {x, y - 2},
                                                ui.theme.text);
  const std::string label = "peak " + format_memory(memory.allocated(peak));
  const ImVec2 size = note_size(ui, label);
  if (size.x > width) return {};
  // Beside the mark; below it where neither side has room, as the axis' labels are on the left.
  float at = x + r + 4, top = std::max(scale.y0, y - size.y - 2);
  if (at + size.x > left + width) at = x - r - size.x - 4;
  if (at < left) {
    at = left;
    top = y + 4;
  }
  const Box box{{at, top}, {at + size.x, top + size.y}};
  draw_note(ui, box, ui.theme.text, label);
  return box;
}

void draw_capacity(const Surface& ui, const TraceModel& model, const MemoryScale& scale,
                   const Box& box, float left, const Box& taken) {
  const auto capacity = static_cast<double>(model.run().memory_per_rank.value);
  if (capacity <= 0 || capacity >= scale.top) return;
  const float y = scale.y_of(capacity);
  draw_dashes(left, box.max.x, y, ui.colours().fail, ui.theme.px(5));
  const std::string label = "capacity " + format_memory(model.run().memory_per_rank);
  const ImVec2 size = note_size(ui, label);
  const float gap = ui.theme.px(6);
  const float above = y - size.y - ui.theme.px(2);
  const float top = above < scale.y0 ? y + ui.theme.px(3) : above;
  const float right = box.max.x - gap - size.x;
  const bool clear = taken.max.x < right || taken.max.y < top || taken.min.y > top + size.y;
  const float x = clear ? right : left + gap;
  const bool room = clear || taken.min.x > x + size.x;
  if (room && size.x < box.max.x - left) {
    draw_note(ui, {{x, top}, {x + size.x, top + size.y}}, ui.colours().fail, label);
  }
}

struct ClassRow {
  MemoryClass memory_class;
  Bytes bytes;
};

// What is there, and whatever else is drawn, in the order of the plot's bands from the top.
std::vector<ClassRow> class_rows(const MemoryStack& stack, const ViewState& state) {
  std::vector<ClassRow> rows;
  for (auto it = device_memory_stack.rbegin(); it != device_memory_stack.rend(); ++it) {
    const auto c = static_cast<std::size_t>(*it);
    if (stack[c] != Bytes{} || state.classes_in_view[c]) rows.push_back({*it, stack[c]});
  }
  for (const MemoryClass c : host_memory_stack) {  // drawn below the plot
    const Bytes bytes = stack[static_cast<std::size_t>(c)];
    if (bytes != Bytes{}) rows.push_back({c, bytes});
  }
  return rows;
}

void draw_class_row(const Surface& ui, const ClassRow& row, const Box& box) {
  const std::string bytes = format_memory(row.bytes);
  const float x = box.min.x + ui.theme.px(17);
  const float room = box.max.x - text_width(ui.fonts.small, bytes) - ui.theme.px(6) - x;
  draw_swatch(ui, {box.min.x, std::floor(box.min.y + ui.theme.px(2))},
              ui.colours().of(row.memory_class), row.memory_class == MemoryClass::reserved_unused);
  ImGui::PushFont(ui.fonts.small);
  draw_text(ui.fonts.small, {x, box.min.y}, ui.theme.text,
            fitted(std::string(name_of(row.memory_class)), room));
  ImGui::PopFont();
  draw_text_right(ui.fonts.small, {box.max.x, box.min.y}, ui.theme.dim, bytes);
}

// One column of classes, two if one has not enough room, and the smallest in a sum: none is left
// out.
void draw_classes(const Surface& ui, const MemoryPyramid& memory, ViewState& state,
                  const Box& box) {
  const std::optional<Time> cursor = state.pointed();
  const std::ptrdiff_t sample =
      cursor ? memory.at(*cursor) : memory.highest(state.time.from(), state.time.to());
  const Theme& theme = ui.theme;
  const float x = box.min.x + theme.px(16), right = box.max.x - theme.px(16);
  const float y = box.min.y + theme.px(10);
  draw_text(ui.fonts.strong, {x, y}, theme.text, cursor ? "At the cursor" : "At the peak");
  draw_text_right(ui.fonts.strong, {right, y}, theme.text, format_memory(memory.allocated(sample)));
  const float first = y + ui.fonts.strong->FontSize + theme.px(7);
  const float row = ui.fonts.small->FontSize + theme.px(6);
  const auto lines =
      static_cast<std::size_t>(std::max(1.0F, std::floor((box.max.y - theme.px(6) - first) / row)));
  std::vector<ClassRow> rows = class_rows(memory.stack(sample), state);
  const std::size_t columns = rows.size() > lines ? 2 : 1;
  Bytes rest{};
  std::size_t more = 0;
  for (; rows.size() > lines * columns - (more > 0 ? 1 : 0); ++more) {
    const auto least =
        std::min_element(rows.begin(), rows.end(),
                         [](const ClassRow& a, const ClassRow& b) { return a.bytes < b.bytes; });
    rest += least->bytes;
    rows.erase(least);
  }
  const float wide = columns == 1 ? right - x : (right - x - theme.px(16)) / 2;
  const auto place = [&](std::size_t k) {
    const ImVec2 at{x + static_cast<float>(k / lines) * (wide + theme.px(16)),
                    first + static_cast<float>(k % lines) * row};
    return Box{at, {at.x + wide, at.y + row}};
  };
  std::string all;
  for (std::size_t k = 0; k < rows.size(); ++k) {
    draw_class_row(ui, rows[k], place(k));
    all += std::string(all.empty() ? "" : "; ") + std::string(name_of(rows[k].memory_class));
  }
  if (more > 0) {
    const std::string words = fmt::format("+ {} more", more);
    const Box at = place(rows.size());
    draw_text(ui.fonts.small, {at.min.x + theme.px(17), at.min.y}, theme.dim, words);
    draw_text_right(ui.fonts.small, {at.max.x, at.min.y}, theme.dim, format_memory(rest));
    all += "; " + words;
  }
  state.fields["legend/memory"] = all;
}

}  // namespace

void draw_memory_legend(const Surface& ui, TraceModel& model, ViewState& state, const Box& box) {
  ImGui::GetWindowDrawList()->AddRectFilled(box.min, box.max, ui.theme.panel);
  if (box.height() < ui.theme.px(48)) return;  // no room for a title and a class
  const RankMemory& memory = model.memory(state.rank);
  if (memory.pyramid != nullptr) draw_classes(ui, *memory.pyramid, state, box);
}

void draw_memory_panel(Surface& ui, TraceModel& model, ViewState& state, const Box& box) {
  ImDrawList* draw = ImGui::GetWindowDrawList();
  const Theme& theme = ui.theme;
  draw->AddRectFilled(box.min, box.max, theme.panel);
  state.place("memory", box.min, box.max);
  const float title = box.min.x + theme.px(12), top = box.min.y + theme.px(6);
  draw_text(ui.fonts.strong, {title, top}, theme.text, "Memory");
  draw_text(
      ui.fonts.small,
      {title + text_width(ui.fonts.strong, "Memory") + theme.px(8), top + theme.px(2)}, theme.dim,
      fmt::format("rank {}{}", state.rank,
                  model.memory(state.rank).by_steps
                      ? "   each step's peak as the run counted it: zoom in for what is between"
                      : ""));
  const RankMemory& rank = model.memory(state.rank);
  const TimeStretch stretch = time_stretch(box, theme.px(state.gutter), theme.px(8));
  const float left = stretch.left, width = stretch.width;
  // Strips of the host take what the device's plot can spare.
  const float strip = theme.px(host_strip_height);
  const auto strips = static_cast<float>(rank.host.size()) * strip;
  const bool room = box.height() - strips > theme.px(100);
  const Box plot{{left, box.min.y + theme.px(24)},
                 {left + width, box.max.y - theme.px(10) - (room ? strips : 0)}};
  if (rank.pyramid == nullptr) {
    const bool broken = !rank.problem.ok();
    draw_text(
        ui.fonts.body, plot.min, broken ? ui.colours().fail : theme.dim,
        broken ? "⚠ " + rank.problem.message() : "No memory samples were recorded for this rank.");
    return;
  }
  if (plot.height() < theme.px(40) || plot.width() < theme.px(40)) return;  // no room for a plot
  draw->PushClipRect(box.min, box.max, true);
  const MemoryPyramid& memory = *rank.pyramid;
  const MemoryScale scale = memory_scale(model, memory, plot.min.y, plot.max.y);
  draw_grid(ui, scale, plot, left);
  state.classes_in_view =
      draw_memory_stack(ui, memory, state.time, model.info().end, scale, {left, width},
                        {plot_column_px(width), /*hatched=*/true});
  for (std::size_t k = 0; room && k < rank.host.size(); ++k) {
    const float y = plot.max.y + static_cast<float>(k + 1) * strip;
    draw_host_strip(ui, rank.host[k], state, model.info().end,
                    {{left, y - strip + theme.px(6)}, {left + width, y}}, box.min.x);
  }
  const Box peak = draw_peak(ui, memory, state, scale, left, width);
  draw_capacity(ui, model, scale, plot, left, peak);
  draw->PopClipRect();
  if (!memory.consistent()) {
    draw_text(ui.fonts.strong, {left + theme.px(120), top}, ui.colours().fail,
              "⚠ the classes do not sum to the allocator's counter");
  }
  const ImGuiIO& io = ImGui::GetIO();
  if (plot.contains(io.MousePos) && ImGui::IsWindowHovered()) {
    state.point_at(io.MousePos.x, left, width);
    if (io.MouseWheel != 0) {
      state.time.zoom(std::pow(1.25, io.MouseWheel), (io.MousePos.x - left) / width);
    }
  }
  if (plot.contains(io.MouseClickedPos[0]) && ImGui::IsMouseDragging(0, 4)) {
    state.time.pan(-io.MouseDelta.x / width);
  }
}

}  // namespace tessera::inspector
