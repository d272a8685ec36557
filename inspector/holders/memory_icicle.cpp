// SPDX-License-Identifier: Apache-2.0
#include "inspector/holders/memory_icicle.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "inspector/widgets/drawing.h"
#include "inspector/widgets/format.h"
#include "inspector/widgets/op_text.h"

namespace tessera::inspector {
namespace {

using analysis::Holder;

constexpr int levels = 4;
constexpr float level_px = 22, title_px = 24;
constexpr float label_from_px = 28;  // narrower parts have none

std::size_t place_of(MemoryClass wanted) {
  const auto found = std::find(device_memory_stack.begin(), device_memory_stack.end(), wanted);
  return static_cast<std::size_t>(found - device_memory_stack.begin());
}

bool on_device(MemoryClass memory_class) {
  return place_of(memory_class) < device_memory_stack.size();
}

std::string unit_text(const std::string& unit) {
  return unit.empty() ? "of no unit" : short_name(unit);
}

std::string label_of(const IciclePart& part, bool alone) {
  switch (part.level) {
    case 0: return alone ? "one unit: click for all" : "all on the device";
    case 1: return unit_text(part.unit);
    case 2: return std::string(name_of(part.memory_class));
    default: return part.buffer.empty() ? "a buffer" : short_name(part.buffer);
  }
}

Colour colour_of(const Surface& ui, const IciclePart& part, bool odd) {
  switch (part.level) {
    case 0: return ui.theme.raised;
    case 1: return odd ? ui.theme.field_hover : ui.theme.field;
    case 2: return ui.colours().of(part.memory_class);
    default: return mix(ui.theme.panel, ui.colours().of(part.memory_class), odd ? 150 : 190);
  }
}

void draw_part_tooltip(const Surface& ui, ViewState& state, const IciclePart& part, Bytes all) {
  const double share = static_cast<double>(part.bytes.value) /
                       static_cast<double>(std::max<std::int64_t>(1, all.value));
  const std::string size =
      fmt::format("{}, {} of what is shown", format_memory(part.bytes), format_percent(share));
  state.fields["icicle/pointed"] = label_of(part, false) + " " + format_memory(part.bytes);
  ImGui::BeginTooltip();
  ImGui::PushFont(ui.fonts.strong);
  ImGui::TextUnformatted(label_of(part, false).c_str());
  ImGui::PopFont();
  if (part.level == 3) ImGui::TextUnformatted(std::string(name_of(part.memory_class)).c_str());
  if (part.level > 1) ImGui::TextUnformatted(unit_text(part.unit).c_str());
  ImGui::TextUnformatted(size.c_str());
  ImGui::EndTooltip();
}

}  // namespace

std::vector<IciclePart> icicle_of(const analysis::MemoryMoment& moment, const std::string* unit) {
  std::vector<const Holder*> holders;
  Bytes all{};
  for (const Holder& holder : moment.holders) {
    if (!on_device(holder.memory_class) || (unit != nullptr && holder.unit != *unit)) continue;
    holders.push_back(&holder);
    all += holder.bytes;
  }
  if (all <= Bytes{}) return {};
  // The largest come first in the moment and stay so among the buffers of a class.
  std::stable_sort(holders.begin(), holders.end(), [](const Holder* a, const Holder* b) {
    if (a->unit != b->unit) return in_natural_order(a->unit, b->unit);
    return place_of(a->memory_class) < place_of(b->memory_class);
  });
  const double whole = static_cast<double>(all.value);
  std::vector<IciclePart> parts = {{0, 0, 1, all, "", MemoryClass::unknown, ""}};
  std::size_t of_unit = 0, of_class = 0;  // the parts that are being filled
  Bytes before{};
  const Holder* last = nullptr;
  for (const Holder* holder : holders) {
    const double from = static_cast<double>(before.value) / whole;
    const bool new_unit = last == nullptr || last->unit != holder->unit;
    const bool new_class = new_unit || last->memory_class != holder->memory_class;
    if (new_unit) {
      of_unit = parts.size();
      parts.push_back({1, from, from, {}, holder->unit, MemoryClass::unknown, ""});
    }
    if (new_class) {
      of_class = parts.size();
      parts.push_back({2, from, from, {}, holder->unit, holder->memory_class, ""});
    }
    before += holder->bytes;
    const double to = static_cast<double>(before.value) / whole;
    parts.push_back({3, from, to, holder->bytes, holder->unit, holder->memory_class, holder->name});
    for (const std::size_t above : {of_unit, of_class}) {
      parts[above].bytes += holder->bytes;
      parts[above].to = to;
    }
    last = holder;
  }
  return parts;
}

float MemoryIcicle::draw(const Surface& ui, ViewState& state, const analysis::MemoryMoment& moment,
                         const Box& box) {
  std::vector<IciclePart> parts = icicle_of(moment, alone_ ? &unit_ : nullptr);
  if (parts.empty() && alone_) {  // the unit holds nothing now
    alone_ = false;
    parts = icicle_of(moment, nullptr);
  }
  const float row = ui.theme.px(level_px), top = box.min.y + ui.theme.px(title_px);
  if (parts.empty() || box.width() < ui.theme.px(label_from_px)) return box.min.y;
  const std::string title = "By unit, class and buffer";
  ImGui::PushFont(ui.fonts.strong);
  draw_text(ui.fonts.strong, box.min, ui.theme.text, fitted(title, box.width()));
  ImGui::PopFont();
  ImDrawList* draw = ImGui::GetWindowDrawList();
  const IciclePart* pointed = nullptr;
  std::array<bool, levels> odd{};
  ImGui::PushFont(ui.fonts.small);
  for (const IciclePart& part : parts) {
    const auto x_of = [&](double share) {
      return std::floor(box.min.x + static_cast<float>(share) * box.width());
    };
    const float y = top + static_cast<float>(part.level) * row;
    const Box place{{x_of(part.from), y}, {x_of(part.to), y + row - 1}};
    auto& second = odd[static_cast<std::size_t>(part.level)];
    second = !second;
    if (place.width() < 1) continue;  // less than a pixel
    const Colour colour = colour_of(ui, part, second);
    const float gap = place.width() > 4 ? 1 : 0;
    draw->AddRectFilled(place.min, {place.max.x - gap, place.max.y}, colour);
    if (part.level == 1) state.place("icicle/" + part.unit, place.min, place.max);
    if (part.level == 0) state.place("icicle", place.min, place.max);
    if (place.contains(ImGui::GetIO().MousePos) && ImGui::IsWindowHovered()) pointed = &part;
    const float room = place.width() - ui.theme.px(8);
    if (place.width() < ui.theme.px(label_from_px)) continue;
    const Colour ink = part.level < 2 ? ui.theme.text : text_on(colour);
    std::string words = label_of(part, alone_);
    words = part.level % 2 == 1 ? fitted_path(words, room) : fitted(words, room);
    const std::string bytes = format_memory(part.bytes);
    const float y_text = y + std::floor((row - 1 - ui.fonts.small->FontSize) / 2);
    draw_text(ui.fonts.small, {place.min.x + ui.theme.px(4), y_text}, ink, words);
    const float rest = room - text_width(ui.fonts.small, words) - ui.theme.px(10);
    if (!words.empty() && text_width(ui.fonts.small, bytes) < rest) {
      draw_text_right(ui.fonts.small, {place.max.x - gap - ui.theme.px(4), y_text}, ink, bytes);
    }
  }
  ImGui::PopFont();
  state.fields["icicle"] = fmt::format("{} parts, {}", parts.size(), format_memory(parts[0].bytes));
  if (pointed != nullptr) {
    draw_part_tooltip(ui, state, *pointed, parts[0].bytes);
    if (ImGui::IsMouseClicked(0)) {
      alone_ = !alone_ && pointed->level > 0;
      unit_ = pointed->unit;
    }
  }
  return top + levels * row + ui.theme.px(12);
}

}  // namespace tessera::inspector
