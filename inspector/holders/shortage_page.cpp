// SPDX-License-Identifier: Apache-2.0
#include "inspector/holders/shortage_page.h"

#include <fmt/format.h>

#include <algorithm>

#include "inspector/widgets/drawing.h"
#include "inspector/widgets/format.h"
#include "inspector/widgets/op_text.h"
#include "tessera/analysis/memory_shortage.h"

namespace tessera::inspector {
namespace {

using storage::MemoryShortageRow;

constexpr int map_rows = 6;
constexpr float map_row_px = 13, map_gap_px = 3;
constexpr float names_px = 150;
constexpr std::size_t rooms_shown = 3;

const storage::BufferRow* buffer_at(TraceModel& model, std::int32_t id) {
  const auto& buffers = model.buffers();
  const auto found = std::lower_bound(
      buffers.begin(), buffers.end(), id,
      [](const storage::BufferRow& row, std::int32_t wanted) { return row.id < wanted; });
  return found == buffers.end() || found->id != id ? nullptr : &*found;
}

// "1 piece from 256 MiB, 12 pieces from 64 MiB and 80 smaller ones"
std::string rooms_text(const MemoryShortageRow& shortage) {
  std::string text;
  std::int64_t rest = 0;
  const std::vector<analysis::Room> rooms = analysis::free_rooms(shortage);
  for (std::size_t k = 0; k < rooms.size(); ++k) {
    if (k >= rooms_shown) {
      rest += rooms[k].count;
      continue;
    }
    text += fmt::format("{}{} from {}", text.empty() ? "" : ", ",
                        format_many(rooms[k].count, "piece"), format_memory(rooms[k].from));
  }
  return rest > 0 ? fmt::format("{} and {} smaller", text, rest) : text;
}

// Streams whose free blocks would have been large enough: "2.32 GiB of all_gather".
std::string kept_text(const TraceModel& model, const MemoryShortageRow& s) {
  std::string text;
  for (const storage::StreamRow& stream : model.info().streams) {
    Bytes kept{}, largest{};
    for (const MemoryBlock& block : s.map) {
      if (block.buffer >= 0 || block.stream != stream.id) continue;
      kept += block.bytes;
      largest = std::max(largest, block.bytes);
    }
    if (largest < s.request) continue;
    text += fmt::format("{}{} of stream {}", text.empty() ? "" : ", ", format_memory(kept),
                        stream.name);
  }
  return text;
}

std::string would_fit(const TraceModel& model) {
  for (const storage::DiagnosticRow& row : model.diagnostics()) {
    if (row.code == "would_fit") return row.message;
  }
  return {};
}

float draw_figures(const Surface& ui, TraceModel& model, ViewState& state,
                   const MemoryShortageRow& s, const Box& box) {
  const float values = std::min(ui.theme.px(names_px), box.width() / 2);
  const float wide = std::max(box.width() - values, 1.0F);
  float y = box.min.y;
  const auto line = [&](const char* name, const std::string& value) {
    if (value.empty()) return;
    ImGui::PushFont(ui.fonts.body);
    draw_text(ui.fonts.body, {box.min.x, y}, ui.theme.dim, fitted(name, values));
    ImGui::PopFont();
    state.fields[std::string("shortage/") + name] = value;
    y += draw_wrapped(ui.fonts.body, {box.min.x + values, y}, ui.theme.text, value, wide) +
         ui.theme.px(6);
  };
  line("asked for", format_memory(s.request));
  line("room for", format_memory(s.capacity));
  line("free", fmt::format("{}: {}", format_memory(s.free), rooms_text(s)));
  line("largest for it", format_memory(s.largest_free));
  line("kept for others", kept_text(model, s));
  line("fragmentation", fmt::format("{} of what is free is not in its largest piece",
                                    format_percent(analysis::fragmentation(s))));
  line("what would fit", would_fit(model));
  return y + ui.theme.px(8);
}

// Bytes of the device as rows of pixels, one below the other.
struct MapPlace {
  Box box;
  float row, gap;
  double per_px;

  MapPlace(const Surface& ui, const Box& in, Bytes capacity)
      : box(in),
        row(ui.theme.px(map_row_px)),
        gap(ui.theme.px(map_gap_px)),
        per_px(static_cast<double>(std::max<std::int64_t>(capacity.value, 1)) /
               (map_rows * static_cast<double>(std::max(in.width(), 1.0F)))) {}
  float height() const { return map_rows * (row + gap) - gap; }
  // use(min, max) for each row that the bytes [from, to) have a part of.
  template <class F>
  void for_each_part(double from, double to, F use) const {
    const double width = std::max(box.width(), 1.0F);
    for (int k = 0; k < map_rows; ++k) {
      const double a = std::max(from / per_px - k * width, 0.0);
      const double b = std::min(to / per_px - k * width, width);
      if (b <= a) continue;
      const float top = box.min.y + static_cast<float>(k) * (row + gap);
      use(ImVec2{box.min.x + static_cast<float>(a), top},
          ImVec2{box.min.x + static_cast<float>(b), top + row});
    }
  }
  // The byte under the mouse, -1 beside the map.
  double byte_at(ImVec2 mouse) const {
    const float down = mouse.y - box.min.y;
    // Where the mouse is not known its place is no number of pixels.
    const bool on = mouse.x >= box.min.x && mouse.x < box.max.x && down >= 0 && down < height();
    if (!on) return -1;
    const auto k = static_cast<int>(down / (row + gap));
    if (down - static_cast<float>(k) * (row + gap) >= row) return -1;
    return (static_cast<double>(k) * box.width() + (mouse.x - box.min.x)) * per_px;
  }
};

void draw_block_tooltip(const Surface& ui, ViewState& state, const MemoryBlock& block,
                        const storage::BufferRow* buffer) {
  const std::string name = buffer == nullptr ? "free" : short_name(buffer->name);
  state.fields["shortage/block"] = name + " " + format_memory(block.bytes);
  ImGui::BeginTooltip();
  ImGui::PushFont(ui.fonts.strong);
  ImGui::TextUnformatted(name.c_str());
  ImGui::PopFont();
  if (buffer != nullptr) {
    ImGui::Text("%s", std::string(name_of(buffer->memory_class)).c_str());
    if (!buffer->unit.empty()) ImGui::Text("of %s", buffer->unit.c_str());
  }
  ImGui::Text("%s at %s", format_memory(block.bytes).c_str(), format_memory(block.address).c_str());
  ImGui::EndTooltip();
}

// Blocks that are narrower than a pixel are drawn with what comes after them in the colour of the
// largest, so that there are never more rectangles than pixels.
void draw_map(const Surface& ui, TraceModel& model, ViewState& state, const MemoryShortageRow& s,
              const Box& box) {
  const MapPlace place(ui, box, s.capacity);
  ImDrawList* draw = ImGui::GetWindowDrawList();
  const ImVec2 mouse = ImGui::GetIO().MousePos;
  const double pointed = place.byte_at(mouse);
  double at = 0, from = 0;
  std::int64_t largest = 0;
  Colour colour = ui.theme.ground;
  // Free memory is a hole in the bar, so that what is left of it is seen between the blocks.
  place.for_each_part(0, static_cast<double>(s.capacity.value),
                      [&](ImVec2 a, ImVec2 b) { draw->AddRectFilled(a, b, ui.theme.ground); });
  const auto paint = [&](double to) {
    const float gap = (to - from) / place.per_px > 3 ? 1.0F : 0.0F;
    if (colour != ui.theme.ground) {
      place.for_each_part(from, to, [&](ImVec2 a, ImVec2 b) {
        draw->AddRectFilled(a, {std::max(b.x - gap, a.x + 1), b.y}, colour);
      });
    }
    from = to;
    largest = 0;
  };
  const MemoryBlock* under = nullptr;
  for (const MemoryBlock& block : s.map) {
    const auto bytes = static_cast<double>(block.bytes.value);
    const storage::BufferRow* buffer = buffer_at(model, block.buffer);
    if (block.bytes.value > largest) {
      largest = block.bytes.value;
      colour = block.buffer < 0    ? ui.theme.ground
               : buffer == nullptr ? ui.theme.dim
                                   : ui.colours().of(buffer->memory_class);
    }
    if (pointed >= at && pointed < at + bytes) under = &block;
    at += bytes;
    if ((at - from) / place.per_px >= 1) paint(at);
  }
  paint(at);
  if (under != nullptr && ImGui::IsWindowHovered()) {
    draw_block_tooltip(ui, state, *under, buffer_at(model, under->buffer));
  }
}

}  // namespace

float draw_shortage(const Surface& ui, TraceModel& model, ViewState& state,
                    const MemoryShortageRow& shortage, const Box& box) {
  float y = draw_figures(ui, model, state, shortage, box);
  if (shortage.map.empty()) return y;
  const std::string name = "Memory by address";
  const std::string legend = fmt::format("a row is {}; blank is free",
                                         format_memory(Bytes{shortage.capacity.value / map_rows}));
  draw_text(ui.fonts.strong, {box.min.x, y}, ui.theme.text, name);
  if (text_width(ui.fonts.strong, name) + text_width(ui.fonts.small, legend) + ui.theme.px(12) <
      box.width()) {
    draw_text_right(ui.fonts.small, {box.max.x, y + ui.theme.px(2)}, ui.theme.dim, legend);
  }
  y += ui.theme.row_px;
  const Box map{{box.min.x, y}, {box.max.x, y + MapPlace(ui, box, shortage.capacity).height()}};
  draw_map(ui, model, state, shortage, map);
  state.place("shortage/map", map.min, map.max);
  return map.max.y + ui.theme.px(18);
}

}  // namespace tessera::inspector
