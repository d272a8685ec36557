// SPDX-License-Identifier: Apache-2.0
#include "inspector/holders/holders_panel.h"

#include <fmt/format.h>

#include <algorithm>

#include "inspector/holders/shortage_page.h"
#include "inspector/widgets/drawing.h"
#include "inspector/widgets/format.h"
#include "inspector/widgets/op_text.h"

namespace tessera::inspector {
namespace {

using analysis::Holder;

constexpr std::size_t holders_max = 40;  // rows; the rest is a sum
constexpr float holders_beside = 760;    // px from which on classes and buffers stand side by side
constexpr float bytes_column = 84;

// "h.3.ag_out", "exp_avg of h.3"
std::string buffer_text(const std::string& buffer, const std::string& unit) {
  const std::string name = buffer.empty() ? "a buffer" : short_name(buffer);
  const bool told = unit.empty() || buffer.starts_with(unit + ".");
  return told ? name : fmt::format("{} of {}", name, short_name(unit));
}

std::string text_of(const Holder& holder) { return buffer_text(holder.name, holder.unit); }

std::string request_text(const std::vector<storage::BufferRow>& buffers, std::int32_t id) {
  for (const storage::BufferRow& row : buffers) {
    if (row.id == id) {
      return fmt::format("{} ({})", buffer_text(row.name, row.unit), name_of(row.memory_class));
    }
  }
  return "a buffer";
}

}  // namespace

// The samples that the moment is among: of a long run those of its step.
const RankMemory& HoldersPanel::find_memory(TraceModel& model, const ViewState& state) {
  const RankMemory& shown = model.memory(state.rank);
  if (shown.pyramid == nullptr || !shown.by_steps) return shown;
  const std::optional<Time> cursor = state.pointed();
  for (const storage::MemoryShortageRow& row : model.memory_shortages()) {
    const bool in_view = state.time.from() <= row.time && row.time <= state.time.to();
    if (cursor || row.rank != state.rank || !in_view) continue;
    return model.memory_around(state.rank, model.step_at(row.time));
  }
  const std::ptrdiff_t highest = shown.pyramid->highest(state.time.from(), state.time.to());
  if (!cursor && highest < 0) return shown;
  const Time moment = cursor ? *cursor : std::max(shown.pyramid->time(highest), state.time.from());
  return model.memory_around(state.rank, model.step_at(moment));
}

void HoldersPanel::find_out(TraceModel& model, const ViewState& state) {
  const RankMemory& memory = find_memory(model, state);
  if (memory.pyramid == nullptr) return;
  if (state.rank != rank_ || memory.serial != serial_) {
    rank_ = state.rank;
    serial_ = memory.serial;
    sample_ = -2;
    held_.emplace(memory.samples);
    find_shortage(model, memory);
  }
  const std::optional<Time> cursor = state.pointed();
  const std::ptrdiff_t under = cursor ? memory.pyramid->at(*cursor) : -1;
  pointed_ = under >= 0;
  fails_ = !pointed_ && fails_in(state, memory);
  const std::ptrdiff_t sample = pointed_ ? under
                                : fails_
                                    ? static_cast<std::ptrdiff_t>(request_)
                                    : memory.pyramid->highest(state.time.from(), state.time.to());
  if (sample == sample_) return;
  sample_ = sample;
  moment_ = {};
  if (sample < 0) return;
  moment_ = held_->at(memory.samples, model.buffers(), static_cast<std::size_t>(sample));
  std::stable_sort(
      moment_.holders.begin(), moment_.holders.end(), [](const Holder& a, const Holder& b) {
        return a.bytes != b.bytes ? a.bytes > b.bytes : in_natural_order(a.name, b.name);
      });
}

void HoldersPanel::find_shortage(TraceModel& model, const RankMemory& memory) {
  shortage_ = nullptr;
  for (const storage::MemoryShortageRow& row : model.memory_shortages()) {
    if (shortage_ != nullptr || row.rank != rank_) continue;
    const auto sample = analysis::sample_of(row, memory.samples);
    // Samples that do not have the request at least say what was held then.
    const std::ptrdiff_t then = memory.pyramid->at(row.time);
    const bool near = memory.reach.first <= row.time && row.time <= memory.reach.second;
    if (!sample && (then < 0 || !near)) continue;
    shortage_ = &row;
    sampled_ = sample.has_value();
    request_ = sample.value_or(static_cast<std::size_t>(then));
  }
}

bool HoldersPanel::fails_in(const ViewState& state, const RankMemory& memory) const {
  if (shortage_ == nullptr) return false;
  // The host asked at one moment; samples have the request when its stream came to it.
  const auto in_view = [&](Time time) {
    return state.time.from() <= time && time <= state.time.to();
  };
  return in_view(shortage_->time) || (sampled_ && in_view(memory.samples.time[request_]));
}

float HoldersPanel::draw_head(Surface& ui, TraceModel& model, ViewState& state,
                              const Box& box) const {
  float y = box.min.y;
  const auto say = [&](ImFont* font, Colour colour, const std::string& words) {
    y += draw_wrapped(font, {box.min.x, y}, colour, words, box.width()) + ui.theme.px(6);
  };
  const auto moment = [&](Time time) {
    return format_moment(time, state.time.to() - state.time.from());
  };
  const std::string capacity = model.run().memory_per_rank > Bytes{}
                                   ? " of " + format_memory(model.run().memory_per_rank)
                                   : "";
  const std::string title =
      fails_
          ? fmt::format("Rank {} had no room for {} at {}", state.rank,
                        request_text(model.buffers(), shortage_->buffer), moment(shortage_->time))
          : fmt::format("Rank {} holds {}{} at {}, {}", state.rank,
                        format_memory(moment_.allocated), capacity, moment(moment_.time),
                        pointed_ ? "at the cursor" : "the highest moment in view");
  say(ui.fonts.title, ui.theme.text, title);
  state.fields["holders"] = title;
  if (fails_) y = draw_shortage(ui, model, state, *shortage_, {{box.min.x, y}, box.max});
  if (fails_ && !sampled_) {
    const std::string words = fmt::format(
        "⚠ The samples of memory do not have this request: below is what they say of {}, which may "
        "be another moment of the host.",
        moment(moment_.time));
    say(ui.fonts.body, ui.colours().warn, words);
    state.fields["holders/unsampled"] = words;
  }
  ImGui::SetCursorScreenPos({box.min.x, y});
  if (tab_button(ui, state, "Show in the timeline", "holders/timeline", false)) {
    const auto [begin, end] = model.step_range(model.step_at(moment_.time));
    const Time around = std::max<Time>((end - begin) / 8, 1000);
    state.panel = "all";
    state.time.show(moment_.time - around, moment_.time + around);
  }
  return y + ImGui::GetFrameHeight() + ui.theme.px(14);
}

// Classes with their part of what is held from the device.
float HoldersPanel::draw_classes(const Surface& ui, ViewState& state, const Box& box) const {
  const Theme& theme = ui.theme;
  float y = box.min.y;
  draw_text(ui.fonts.strong, {box.min.x, y}, theme.text, "By class");
  y += theme.row_px;
  std::vector<std::pair<Bytes, MemoryClass>> rows;
  for (const MemoryClass c : device_memory_stack) {
    const Bytes bytes = moment_.by_class[static_cast<std::size_t>(c)];
    if (bytes > Bytes{}) rows.emplace_back(bytes, c);
  }
  std::stable_sort(rows.begin(), rows.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  // What is not on the device comes last.
  for (const MemoryClass c : host_memory_stack) {
    const Bytes bytes = moment_.by_class[static_cast<std::size_t>(c)];
    if (bytes > Bytes{}) rows.emplace_back(bytes, c);
  }
  const Bytes most = rows.empty() ? Bytes{1} : std::max_element(rows.begin(), rows.end())->first;
  const float bytes_at = box.max.x, wide = box.width() - theme.px(bytes_column);
  std::string all;
  ImGui::PushFont(ui.fonts.body);
  for (const auto& [bytes, c] : rows) {
    const double share = static_cast<double>(bytes.value) / static_cast<double>(most.value);
    const float base = y + (theme.row_px - ui.fonts.body->FontSize) / 2;
    const std::string name = fitted(std::string(name_of(c)), std::max(wide - theme.px(17), 1.0F));
    draw_swatch(ui, {box.min.x, base + theme.px(3)}, ui.colours().of(c),
                c == MemoryClass::reserved_unused);
    draw_text(ui.fonts.body, {box.min.x + theme.px(17), base}, theme.text, name);
    draw_text_right(ui.fonts.body, {bytes_at, base}, theme.text, format_memory(bytes));
    y += theme.row_px;
    const float length = std::max(1.0F, static_cast<float>(share) * (box.width() - theme.px(17)));
    ImGui::GetWindowDrawList()->AddRectFilled({box.min.x + theme.px(17), y - theme.px(2)},
                                              {box.min.x + theme.px(17) + length, y + theme.px(1)},
                                              ui.colours().of(c));
    y += theme.px(4);
    all += (all.empty() ? "" : "; ") + std::string(name_of(c)) + " " + format_memory(bytes);
  }
  ImGui::PopFont();
  state.fields["holders/classes"] = all;
  return y + theme.px(14);
}

// Buffers, the largest first.
float HoldersPanel::draw_holders(const Surface& ui, ViewState& state, const Box& box) const {
  const Theme& theme = ui.theme;
  const float number = theme.px(bytes_column);
  const bool counts = box.width() > 3 * number;
  const float room = box.width() - theme.px(17) - number * (counts ? 2 : 1);
  float y = box.min.y;
  const auto row = [&](ImFont* font, Colour colour, const std::string& name,
                       const std::string& count, const std::string& bytes) {
    const float base = y + (theme.row_px - font->FontSize) / 2;
    ImGui::PushFont(font);
    draw_text(font, {box.min.x + theme.px(17), base}, colour,
              fitted_middle(name, std::max(room, 1.0F)));
    ImGui::PopFont();
    if (counts) draw_text_right(font, {box.max.x - number, base}, colour, count);
    draw_text_right(font, {box.max.x, base}, colour, bytes);
    y += theme.row_px;
  };
  draw_text(ui.fonts.strong, {box.min.x, y}, theme.text, "By buffer");
  draw_text_right(ui.fonts.small, {box.max.x, y + theme.px(2)}, theme.dim, "held");
  y += theme.row_px;
  Bytes rest{};
  for (std::size_t k = 0; k < moment_.holders.size(); ++k) {
    const Holder& holder = moment_.holders[k];
    if (k >= holders_max) {
      rest += holder.bytes;
      continue;
    }
    const float base = y + (theme.row_px - ui.fonts.body->FontSize) / 2;
    draw_swatch(ui, {box.min.x, base + theme.px(3)}, ui.colours().of(holder.memory_class), false);
    row(ui.fonts.body, theme.text, text_of(holder),
        holder.count > 1 ? fmt::format("{} ×", format_count(holder.count)) : "",
        format_memory(holder.bytes));
    state.fields[fmt::format("holders/{}", k)] =
        text_of(holder) + " " + format_memory(holder.bytes);
  }
  if (moment_.holders.size() > holders_max) {
    row(ui.fonts.body, theme.dim, fmt::format("{} more", moment_.holders.size() - holders_max), "",
        format_memory(rest));
  }
  return y + theme.px(14);
}

void HoldersPanel::draw(Surface& ui, TraceModel& model, ViewState& state, const Box& box) {
  ImGui::GetWindowDrawList()->AddRectFilled(box.min, box.max, ui.theme.panel);
  ImGui::SetCursorScreenPos(box.min);
  ImGui::BeginChild("holders", {box.width(), box.height()}, false);
  const float pad = std::min(ui.theme.px(14), box.width() / 8);
  const ImVec2 at = ImGui::GetCursorScreenPos();
  const float x = at.x + pad, right = at.x + box.width() - 2 * pad;
  float y = at.y + ui.theme.px(12);
  find_out(model, state);
  const RankMemory& memory = model.memory(state.rank);
  if (memory.pyramid == nullptr || sample_ < 0) {
    const bool broken = !memory.problem.ok();
    draw_wrapped(
        ui.fonts.body, {x, y}, broken ? ui.colours().fail : ui.theme.dim,
        broken ? "⚠ " + memory.problem.message() : "No memory of this rank was recorded in view.",
        right - x);
  } else {
    y = draw_head(ui, model, state, {{x, y}, {right, box.max.y}});
    y = icicle_.draw(ui, state, moment_, {{x, y}, {right, box.max.y}});
    const bool beside = right - x > ui.theme.px(holders_beside);
    const float middle = beside ? x + (right - x) * 0.36F : right;
    const float classes = draw_classes(ui, state, {{x, y}, {middle, box.max.y}});
    const Box rest{{beside ? middle + 3 * pad : x, beside ? y : classes}, {right, box.max.y}};
    y = std::max(classes, draw_holders(ui, state, rest));
  }
  ImGui::SetCursorScreenPos({x, y});
  ImGui::Dummy({1, 1});  // how far the window scrolls
  ImGui::EndChild();
}

}  // namespace tessera::inspector
