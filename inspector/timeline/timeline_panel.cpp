// SPDX-License-Identifier: Apache-2.0
#include "inspector/timeline/timeline_panel.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "inspector/widgets/drawing.h"
#include "inspector/widgets/format.h"
#include "inspector/widgets/op_text.h"

namespace tessera::inspector {
namespace {

constexpr float minimap_height = 30;
constexpr float ruler_height = 24;

void text(const Surface& ui, ImVec2 at, Colour colour, const std::string& words,
          ImFont* font = nullptr) {
  draw_text(font == nullptr ? ui.fonts.small : font, at, colour, words);
}

// Compact rows leave out copies: they matter only when one looks closely.
std::vector<std::int32_t> compact_lanes(TraceModel& model, Rank rank) {
  auto lanes = model.lanes_of(rank);
  std::erase_if(lanes, [&](std::int32_t s) { return model.stream(s).role >= StreamRole::copy; });
  return lanes;
}

}  // namespace

void TimelinePanel::draw_minimap(Surface& ui, TraceModel& model, ViewState& state, const Box& box) {
  ImDrawList* draw = ImGui::GetWindowDrawList();
  const Theme& theme = ui.theme;
  const TimeStretch stretch = time_stretch(box, theme.px(gutter_px), 0);
  const float left = stretch.left, width = stretch.width;
  const auto end = static_cast<double>(std::max<Time>(model.info().end, 1));
  const auto x_of = [&](Time t) {
    return left + static_cast<float>(static_cast<double>(t) / end) * width;
  };
  const float y0 = box.min.y + theme.px(4), y1 = box.max.y - theme.px(6);
  text(ui, {box.min.x + theme.px(12), y0 + theme.px(3)}, theme.dim, "run");
  draw->AddRectFilled({left, y0}, {box.max.x, y1}, theme.ground);
  float drawn = left - 1;
  for (std::int32_t step = 0; step <= model.last_step(); ++step) {
    const auto [t0, t1] = model.step_range(step);
    const float x0 = std::floor(x_of(t0)), x1 = std::floor(x_of(t1)) - 1;
    if (x1 <= drawn) continue;  // less than a pixel more
    drawn = std::max(x1, x0 + 1);
    draw->AddRectFilled({x0, y0}, {std::max(x1, x0 + 1), y1}, theme.raised);
    const std::string label = fmt::format("step {}", step);
    if (text_width(ui.fonts.small, label) + theme.px(8) < x1 - x0) {
      text(ui, {x0 + theme.px(6), y0 + theme.px(3)}, theme.dim, label);
    }
  }
  const float v0 = std::clamp(x_of(state.time.from()), left, left + width);
  const float v1 = std::clamp(x_of(state.time.to()), left, left + width);
  draw->AddRectFilled({v0, y0}, {std::max(v1, v0 + 2), y1}, with_alpha(theme.accent, 46));
  draw->AddRect({v0, y0}, {std::max(v1, v0 + 2), y1}, theme.accent);
  state.place("timeline/minimap", {left, y0}, {box.max.x, y1});
  const ImGuiIO& io = ImGui::GetIO();
  const bool inside = Box{{left, y0}, {box.max.x, y1}}.contains(io.MouseClickedPos[0]);
  if (inside && ImGui::IsMouseDown(0)) {
    const auto centre = static_cast<Time>((io.MousePos.x - left) / width * end);
    const Time length = state.time.to() - state.time.from();
    state.time.show(centre - length / 2, centre - length / 2 + length);
  }
}

void TimelinePanel::draw_ruler(Surface& ui, TraceModel& model, const ViewState& state,
                               const Box& box) {
  ImDrawList* draw = ImGui::GetWindowDrawList();
  const TimeStretch stretch = time_stretch(box, ui.theme.px(gutter_px), 0);
  const float left = stretch.left, width = stretch.width;
  const float label_px = text_width(ui.fonts.small, "+00000.00 ms");
  for (const Tick& tick : ruler(state.time, width, label_px)) {
    const float x = std::floor(state.time.x_of(tick.time, left, width));
    draw->AddLine({x, box.min.y + ui.theme.px(ruler_height)}, {x, box.max.y}, ui.theme.line);
    const float w = text_width(ui.fonts.small, tick.label);
    if (x - w / 2 < left - ui.theme.px(4) || x + w / 2 > box.max.x) continue;
    text(ui, {x - w / 2, box.min.y + ui.theme.px(5)}, ui.theme.dim, tick.label);
  }
  // Of thousands of steps some begins: lines that touch would say nothing, and cost much.
  float after = left;
  for (std::int32_t step = 0; step <= model.last_step(); ++step) {
    const auto row = static_cast<std::size_t>(step) * static_cast<std::size_t>(model.steps().ranks);
    const Time t = model.steps().begin[row + static_cast<std::size_t>(state.rank)];
    const float x = std::floor(state.time.x_of(t, left, width));
    if (x < after || x > box.max.x) continue;
    after = x + ui.theme.px(12);
    const ImU32 colour = with_alpha(ui.theme.accent, 150);
    for (float y = box.min.y + ui.theme.px(ruler_height); y < box.max.y; y += 6) {
      draw->AddRectFilled({x, y}, {x + 1, y + 3}, colour);
    }
  }
}

void TimelinePanel::lay_out(const Surface& ui, TraceModel& model, const ViewState& state,
                            const Box& box) {
  const Theme& theme = ui.theme;
  rows_.clear();
  const auto& ranks = model.run().recorded_ranks;
  const auto open_height = [&](Rank rank) {
    const auto lanes = static_cast<float>(std::max<std::size_t>(model.lanes_of(rank).size(), 1));
    return lanes * (theme.lane_px + theme.px(2)) + theme.px(14);
  };
  float all_open = 0;
  for (std::size_t k = 0; k < ranks.size() && all_open <= box.height(); ++k) {
    all_open += open_height(ranks[k]);
  }
  float y = box.min.y - scroll_;
  for (Rank rank : ranks) {
    const bool open = rank == state.rank || all_open <= box.height();
    const float height = open ? open_height(rank) : 3 * (theme.lane_compact_px) + theme.px(8);
    rows_.push_back({rank, y, height, open});
    y += height;
  }
  content_height_ = y + scroll_ - box.min.y;
}

void TimelinePanel::draw_row_title(Surface& ui, TraceModel& model, ViewState& state, const Row& row,
                                   const Box& box) {
  const Theme& theme = ui.theme;
  const std::string label = fmt::format("rank {}", row.rank);
  const float x = box.min.x + theme.px(12);
  const bool chosen = row.rank == state.rank;
  text(ui, {x, row.y + theme.px(row.open ? 7 : 6)}, chosen ? theme.text : theme.dim, label,
       chosen ? ui.fonts.strong : ui.fonts.small);
  state.place(fmt::format("timeline/rank/{}", row.rank), {box.min.x, row.y},
              {box.min.x + theme.px(gutter_px), row.y + row.height});
  if (!row.open) return;
  // The first lane has the rank's number beside it.
  const auto lanes = model.lanes_of(row.rank);
  const float right = box.min.x + theme.px(gutter_px) - theme.px(8);
  float y = row.y + theme.px(7);
  ImGui::PushFont(ui.fonts.small);
  for (std::size_t k = 1; k < lanes.size(); ++k) {
    y += theme.lane_px + theme.px(2);
    const std::string name = fitted(model.stream(lanes[k]).name, right - box.min.x - theme.px(4));
    draw_text_right(ui.fonts.small, {right, y + theme.px(2)}, theme.dim, name);
  }
  ImGui::PopFont();
}

void TimelinePanel::draw_lanes(Surface& ui, TraceModel& model, const ViewState&, const Row& row) {
  const Theme& theme = ui.theme;
  float y = row.y + theme.px(row.open ? 7 : 4);
  const auto lanes = row.open ? model.lanes_of(row.rank) : compact_lanes(model, row.rank);
  for (std::int32_t stream : lanes) {
    const float height = row.open ? theme.lane_px : theme.lane_compact_px - theme.px(1);
    painter_.lane(row.rank, stream, std::floor(y), height, row.open);
    lane_boxes_.push_back({row.rank, stream, std::floor(y), height});
    y += row.open ? theme.lane_px + theme.px(2) : theme.lane_compact_px;
  }
}

void TimelinePanel::draw_rows(Surface& ui, TraceModel& model, ViewState& state, const Box& box) {
  ImDrawList* draw = ImGui::GetWindowDrawList();
  const TimeStretch stretch = time_stretch(box, ui.theme.px(gutter_px), ui.theme.px(8));
  const float left = stretch.left, width = stretch.width;
  lane_boxes_.clear();
  painter_.begin(ui, model, state, left, width);
  for (const Row& row : rows_) {
    if (row.y + row.height <= box.min.y || row.y >= box.max.y) continue;
    if (row.rank == state.rank) {
      draw->AddRectFilled({box.min.x, row.y + 2}, {box.max.x, row.y + row.height - 2},
                          with_alpha(ui.theme.selection, 120));
    }
    draw_row_title(ui, model, state, row, box);
    draw_lanes(ui, model, state, row);
  }
  painter_.finish();
}

// The same op on every visible rank: one sees at a glance who was late.
void TimelinePanel::draw_selection(Surface& ui, TraceModel& model, const ViewState& state,
                                   const Box& box) {
  ImDrawList* draw = ImGui::GetWindowDrawList();
  const TimeStretch stretch = time_stretch(box, ui.theme.px(gutter_px), ui.theme.px(8));
  const float left = stretch.left, width = stretch.width;
  auto outline = [&](const SpanRef& chosen, ImU32 colour) {
    const std::int32_t op = model.rank(chosen.rank).lane(chosen.stream)->spans.op[chosen.index];
    for (const LaneBox& lane : lane_boxes_) {
      if (lane.stream != chosen.stream) continue;
      const auto span = model.find(lane.rank, op);
      if (!span) continue;
      const auto& spans = model.rank(lane.rank).lane(lane.stream)->spans;
      const float x0 = std::clamp(
          std::floor(state.time.x_of(spans.begin[span->index], left, width)), left, left + width);
      const float x1 = std::clamp(std::floor(state.time.x_of(spans.end[span->index], left, width)),
                                  left, left + width);
      if (x1 - x0 < 1 && (x1 <= left || x0 >= left + width)) continue;
      const bool same = lane.rank == chosen.rank;
      draw->AddRect({x0 - 1, lane.y - 1}, {std::max(x1, x0 + 2), lane.y + lane.height + 1}, colour,
                    0, 0, same ? ui.theme.px(2) : 1);
    }
  };
  if (state.selection) outline(*state.selection, ui.theme.text);
  if (state.hovered && state.hovered != state.selection) outline(*state.hovered, ui.theme.accent);
}

void TimelinePanel::handle_mouse(const Surface& ui, TraceModel& model, ViewState& state,
                                 const Box& box) {
  const ImGuiIO& io = ImGui::GetIO();
  const TimeStretch stretch = time_stretch(box, ui.theme.px(gutter_px), ui.theme.px(8));
  const float left = stretch.left, width = stretch.width;
  const bool over = box.contains(io.MousePos) && ImGui::IsWindowHovered();
  if (over && io.MousePos.x >= left) {
    state.cursor = state.time.time_at(io.MousePos.x, left, width);
    if (io.MouseWheel != 0 && io.KeyShift) scroll_ -= io.MouseWheel * 60;
    if (io.MouseWheel != 0 && !io.KeyShift) {
      state.time.zoom(std::pow(1.25, io.MouseWheel), (io.MousePos.x - left) / width);
    }
    if (io.MouseWheelH != 0) state.time.pan(-io.MouseWheelH * 0.1);
  }
  for (int button : {0, 1, 2}) {
    const bool mine =
        box.contains(io.MouseClickedPos[button]) && io.MouseClickedPos[button].x >= left;
    if (mine && ImGui::IsMouseDragging(button, 4)) {
      state.time.pan(-io.MouseDelta.x / width);
      scroll_ -= io.MouseDelta.y;
    }
  }
  if (!over) return;
  const auto slack = static_cast<Time>(3 * state.time.ns_per_px(width));
  for (const LaneBox& lane : lane_boxes_) {
    if (io.MousePos.y < lane.y || io.MousePos.y >= lane.y + lane.height || !state.cursor) continue;
    state.hovered = span_at(model, lane.rank, lane.stream, *state.cursor, slack);
  }
  const bool clicked = ImGui::IsMouseReleased(0) && io.MouseDragMaxDistanceSqr[0] < 16;
  if (!clicked || !box.contains(io.MouseClickedPos[0])) return;
  if (io.MousePos.x >= left) state.selection = state.hovered;
  for (const Row& row : rows_) {
    const bool on_row = io.MousePos.y >= row.y && io.MousePos.y < row.y + row.height;
    if (on_row && (io.MousePos.x < left || state.hovered)) state.rank = row.rank;
  }
}

void TimelinePanel::draw_scrollbar(const Surface& ui, const Box& box) {
  const float over = content_height_ - box.height();
  scroll_ = std::clamp(scroll_, 0.0F, std::max(0.0F, over));
  if (over <= 0) return;
  const float length = std::max(ui.theme.px(24), box.height() * box.height() / content_height_);
  const float y = box.min.y + scroll_ / over * (box.height() - length);
  const float x = box.max.x - ui.theme.px(6);
  ImGui::GetWindowDrawList()->AddRectFilled({x, y}, {box.max.x - ui.theme.px(2), y + length},
                                            ui.theme.field_hover, ui.theme.px(2));
}

void TimelinePanel::draw(Surface& ui, TraceModel& model, ViewState& state, const Box& box) {
  ImDrawList* draw = ImGui::GetWindowDrawList();
  draw->AddRectFilled(box.min, box.max, ui.theme.panel);
  const float map_end = box.min.y + ui.theme.px(minimap_height);
  draw_minimap(ui, model, state, {box.min, {box.max.x - ui.theme.px(8), map_end}});
  const Box below{{box.min.x, map_end}, box.max};
  draw_ruler(ui, model, state, {below.min, {box.max.x - ui.theme.px(8), box.max.y}});
  const Box rows{{box.min.x, map_end + ui.theme.px(ruler_height)}, box.max};
  state.place("timeline/rows", rows.min, rows.max);
  lay_out(ui, model, state, rows);
  if (state.scroll_to_rank) {
    for (const Row& row : rows_) {
      if (row.rank != state.rank) continue;
      // Whole rows above it: none is cut at the top.
      const float compact = rows_.size() > 1 ? rows_[row.rank == rows_[0].rank ? 1 : 0].height : 1;
      const float wanted = row.y + scroll_ - rows.min.y - (rows.height() - row.height) / 2;
      scroll_ = std::floor(wanted / compact) * compact;
    }
    state.scroll_to_rank = false;
    draw_scrollbar(ui, rows);
    lay_out(ui, model, state, rows);
  }
  draw->PushClipRect(rows.min, rows.max, true);
  draw_rows(ui, model, state, rows);
  handle_mouse(ui, model, state, rows);
  draw_selection(ui, model, state, rows);
  draw_scrollbar(ui, rows);
  draw->PopClipRect();
  if (state.hovered) draw_span_tooltip(ui, model, *state.hovered);
}

void draw_span_tooltip(const Surface& ui, TraceModel& model, const SpanRef& span) {
  const auto& spans = model.rank(span.rank).lane(span.stream)->spans;
  const storage::OpRow& op = model.op(spans.op[span.index]);
  const analysis::SpanFacts facts = model.facts(span);
  ImGui::BeginTooltip();
  ImGui::PushFont(ui.fonts.strong);
  ImGui::Text("%s  %s", title_of(op).c_str(), short_name(subject_of(op)).c_str());
  ImGui::PopFont();
  ImGui::PushStyleColor(ImGuiCol_Text, ui.theme.dim);
  ImGui::Text("rank %d, step %d, %s", span.rank, op.step, std::string(name_of(op.phase)).c_str());
  if (op.reason != Reason::none) ImGui::Text("%s", std::string(name_of(op.reason)).c_str());
  ImGui::PopStyleColor();
  ImGui::Text("%s", format_time(facts.duration).c_str());
  if (facts.collective) {
    ImGui::Text("%s %s, bus %s", format_bytes(op.bytes).c_str(),
                std::string(name_of(op.dtype)).c_str(), format_rate(facts.bus_bandwidth).c_str());
    ImGui::Text("wait %s, transfer %s, exposed %s", format_time(facts.wait).c_str(),
                format_time(facts.transfer).c_str(), format_time(facts.exposed).c_str());
    if (facts.kernel > 0) {
      ImGui::Text("kernel %s, bus %s", format_time(facts.kernel).c_str(),
                  format_rate(facts.kernel_bus_bandwidth).c_str());
    }
  } else if (facts.flops_per_s > 0) {
    ImGui::Text("%s/s", format_flops(facts.flops_per_s).c_str());
  }
  ImGui::EndTooltip();
}

}  // namespace tessera::inspector
