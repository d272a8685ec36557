// SPDX-License-Identifier: Apache-2.0
#include "inspector/timeline/timeline_panel.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "inspector/timeline/flow_lines.h"
#include "inspector/timeline/operation_legend.h"
#include "inspector/timeline/path_line.h"
#include "inspector/timeline/time_header.h"
#include "inspector/widgets/drawing.h"
#include "inspector/widgets/format.h"
#include "inspector/widgets/span_lines.h"

namespace tessera::inspector {
namespace {

constexpr float highest_lane = 28;  // px; more adds nothing to a bar with a label
constexpr float label_lane = 14;    // px; less is too low for a label
constexpr float lowest_memory = 60, highest_memory = 640;  // px of a strip below lanes

float lane_gap(const Surface& ui, float lane) {
  return ui.theme.px(lane >= ui.theme.px(label_lane) ? 2 : 1);
}

float row_height(const Surface& ui, std::size_t lanes, float lane) {
  const float pad = ui.theme.px(lane >= ui.theme.px(label_lane) ? 14 : 8);
  return static_cast<float>(lanes) * (lane + lane_gap(ui, lane)) + pad;
}

/// Heights of lanes: of the opened rank and of all others.
struct LaneHeights {
  float opened, others;
  float spare = 0;  // px that rows leave
};

// The highest lanes with which all rows fit; the lowest if none does.
LaneHeights lane_heights(const Surface& ui, TraceModel& model, Rank opened, float room) {
  const auto& ranks = model.run().recorded_ranks;
  const std::size_t guess = model.lanes_of(opened).size();
  const Theme& theme = ui.theme;
  const auto total = [&](float lane) {
    float sum = 0;
    for (std::size_t k = 0; k < ranks.size() && sum <= room + 1; ++k) {
      const float own = ranks[k] == opened ? std::max(lane, theme.lane_px) : lane;
      sum += row_height(ui, model.lane_count(ranks[k], guess), own);
    }
    return sum;
  };
  for (float lane = theme.px(highest_lane); lane > theme.lane_compact_px; lane -= 1) {
    const float rows = total(lane);
    if (rows <= room + 1) return {std::max(lane, theme.lane_px), lane, room - rows};
  }
  return {theme.lane_px, theme.lane_compact_px};
}

}  // namespace

float TimelinePanel::wanted_height(const Surface& ui, TraceModel& model, const ViewState& state,
                                   float width) const {
  const std::size_t guess = model.lanes_of(state.rank).size();
  constexpr float plenty = 100'000;
  float sum = operation_legend_height(ui, model, painter_.seen(), width);
  for (const Rank rank : model.run().recorded_ranks) {
    sum += row_height(ui, model.lane_count(rank, guess), ui.theme.px(highest_lane));
    if (sum > plenty) break;
  }
  return sum;
}

void TimelinePanel::lay_out(const Surface& ui, TraceModel& model, const ViewState& state,
                            const Box& box) {
  rows_.clear();
  const LaneHeights heights = lane_heights(ui, model, state.rank, box.height());
  const std::size_t guess = model.lanes_of(state.rank).size();
  const auto ranks =
      static_cast<float>(std::max<std::size_t>(1, model.run().recorded_ranks.size()));
  const float share = std::min(heights.spare / ranks, ui.theme.px(highest_memory));
  const bool has_memory = share >= ui.theme.px(lowest_memory) && model.run().records_memory &&
                          model.memory(state.rank).pyramid != nullptr;
  const float memory = has_memory ? std::floor(share) : 0;
  const auto add = [&](Rank rank, float& y, bool pinned) {
    const float lane = rank == state.rank ? heights.opened : heights.others;
    const float height = row_height(ui, model.lane_count(rank, guess), lane) + memory;
    rows_.push_back({rank, y, height, lane, memory, lane >= ui.theme.px(label_lane), pinned});
    y += height;
  };
  // Pinned rows stay on top, as long as they leave others half of the room.
  pinned_ = box.min.y;
  std::set<Rank> on_top;
  for (const Rank rank : state.pinned) {
    if (!model.recorded(rank) || pinned_ - box.min.y > box.height() / 2) continue;
    add(rank, pinned_, true);
    on_top.insert(rank);
  }
  float y = pinned_ - scroll_;
  for (const Rank rank : model.run().recorded_ranks) {
    if (!on_top.contains(rank)) add(rank, y, false);
  }
  content_height_ = y + scroll_ - box.min.y;
}

void TimelinePanel::draw_row_title(Surface& ui, TraceModel& model, ViewState& state, const Row& row,
                                   const Box& box) {
  const Theme& theme = ui.theme;
  const std::string label = fmt::format("rank {}", row.rank);
  const float x = box.min.x + theme.px(12);
  const bool chosen = row.rank == state.rank;
  const CoarseRank* const sums = model.crowded() ? model.coarse(row.rank) : nullptr;
  if (!model.crowded()) model.rank(row.rank);
  const Status problem = sums != nullptr ? sums->problem : model.problem_of(row.rank);
  const bool unreadable = !problem.ok();
  const Colour colour = unreadable ? ui.colours().fail : chosen ? theme.text : theme.dim;
  draw_text(chosen ? ui.fonts.strong : ui.fonts.small, {x, row.y + theme.px(row.open ? 7 : 4)},
            colour, label);
  if (unreadable) {
    draw_text(ui.fonts.small, {box.min.x + theme.px(state.gutter), row.y + theme.px(7)}, colour,
              "⚠ " + problem.message());
  } else if (model.crowded() && sums == nullptr) {
    const char* const words = model.reading() == row.rank ? "reading ..." : "is read next";
    draw_text(ui.fonts.small, {box.min.x + theme.px(state.gutter), row.y + theme.px(4)}, theme.dim,
              words);
    state.fields["timeline/reading"] = fmt::format("rank {}", model.reading());
  }
  state.place(fmt::format("timeline/rank/{}", row.rank), {box.min.x, row.y},
              {box.min.x + theme.px(state.gutter), row.y + row.height});
  if (!row.open) return;
  // The first lane has the rank's number beside it.
  const auto& lanes = model.lanes_of(row.rank);
  const float right = box.min.x + theme.px(state.gutter) - theme.px(8);
  float y = row.y + theme.px(7);
  ImGui::PushFont(ui.fonts.small);
  for (std::size_t k = 1; k < lanes.size(); ++k) {
    y += row.lane_height + lane_gap(ui, row.lane_height);
    const std::string name =
        fitted_middle(model.stream(lanes[k]).name, right - box.min.x - theme.px(4));
    const float middle = y + (row.lane_height - ui.fonts.small->FontSize) / 2;
    draw_text_right(ui.fonts.small, {right, middle}, theme.dim, name);
  }
  ImGui::PopFont();
}

// Its highest moment in view beside it.
void TimelinePanel::draw_memory(const Surface& ui, TraceModel& model, ViewState& state,
                                const Row& row, const Box& box) {
  const float pad = ui.theme.px(7);
  const float y = row.y + row.height - row.memory, high = row.memory - pad;
  if (row.memory <= 2 * pad || !painter_.memory(row.rank, y, high)) return;
  const MemoryPyramid& memory = *model.memory(row.rank).pyramid;
  const std::ptrdiff_t peak = memory.highest(state.time.from(), state.time.to());
  if (peak < 0) return;
  const std::string words = format_memory(memory.allocated(peak));
  const float right = box.min.x + ui.theme.px(state.gutter) - ui.theme.px(8);
  draw_text_right(ui.fonts.small, {right, y}, ui.theme.dim, "memory to");
  draw_text_right(ui.fonts.small, {right, y + ui.fonts.small->FontSize + ui.theme.px(2)},
                  ui.theme.text, words);
  state.fields[fmt::format("timeline/memory/{}", row.rank)] = words;
}

void TimelinePanel::draw_lanes(Surface& ui, TraceModel& model, const Row& row) {
  float y = row.y + ui.theme.px(row.open ? 7 : 4);
  for (const std::int32_t stream : model.lanes_of(row.rank)) {
    painter_.lane(row.rank, stream, std::floor(y), row.lane_height, row.open);
    lane_boxes_.push_back({row.rank, stream, std::floor(y), row.lane_height});
    y += row.lane_height + lane_gap(ui, row.lane_height);
  }
}

void TimelinePanel::draw_rows(Surface& ui, TraceModel& model, ViewState& state, const Box& box) {
  ImDrawList* draw = ImGui::GetWindowDrawList();
  const TimeStretch stretch = time_stretch(box, ui.theme.px(state.gutter), ui.theme.px(8));
  const float left = stretch.left, width = stretch.width;
  lane_boxes_.clear();
  painter_.begin(ui, model, state, left, width);
  for (const Row& row : rows_) {
    // A row below pinned ones is drawn where it is wholly seen.
    const float top = row.pinned || pinned_ <= box.min.y ? box.min.y - row.height : pinned_ - 1;
    if (row.y <= top || row.y >= box.max.y) continue;
    if (row.rank == state.rank) {
      draw->AddRectFilled({box.min.x, row.y + 2}, {box.max.x, row.y + row.height - 2},
                          with_alpha(ui.theme.selection, 120));
    }
    draw_row_title(ui, model, state, row, box);
    draw_lanes(ui, model, row);
    draw_memory(ui, model, state, row, box);
  }
  if (pinned_ > box.min.y) {
    draw->AddRectFilled({box.min.x, pinned_ - 1}, {box.max.x, pinned_}, ui.theme.accent);
  }
  painter_.finish();
}

// The same op on every visible rank: one sees at a glance who was late.
void TimelinePanel::draw_selection(Surface& ui, TraceModel& model, const ViewState& state,
                                   const Box& box) {
  ImDrawList* draw = ImGui::GetWindowDrawList();
  const TimeStretch stretch = time_stretch(box, ui.theme.px(state.gutter), ui.theme.px(8));
  const float left = stretch.left, width = stretch.width;
  auto outline = [&](const SpanRef& chosen, ImU32 colour) {
    for (const LaneBox& lane : lane_boxes_) {
      if (lane.stream != chosen.stream) continue;
      auto span = model.loaded_times(lane.rank, lane.stream, chosen.op);
      if (!span && lane.rank == chosen.rank) span = model.times(chosen);
      if (!span) continue;
      const float x0 =
          std::clamp(std::floor(state.time.x_of(span->begin, left, width)), left, left + width);
      const float x1 =
          std::clamp(std::floor(state.time.x_of(span->end, left, width)), left, left + width);
      if (x1 - x0 < 1 && (x1 <= left || x0 >= left + width)) continue;
      const bool same = lane.rank == chosen.rank;
      draw->AddRect({x0 - 1, lane.y - 1}, {std::max(x1, x0 + 2), lane.y + lane.height + 1}, colour,
                    0, 0, same ? ui.theme.px(2) : 1);
    }
  };
  if (state.selection) outline(*state.selection, ui.theme.text);
  if (state.hovered && state.hovered != state.selection) outline(*state.hovered, ui.theme.accent);
}

// Along the upper edge of bars, where no label is; of ranks out of view along the panel's edge.
bool TimelinePanel::draw_path(const Surface& ui, TraceModel& model, const ViewState& state,
                              const Box& box) {
  if (!state.show_path) return false;
  return draw_path_line(
      ui, model, state, box, [&](Rank rank, std::int32_t stream) -> std::optional<float> {
        for (const LaneBox& lane : lane_boxes_) {
          if (lane.rank == rank && lane.stream == stream) return lane.y + ui.theme.px(1);
        }
        const auto row =
            std::find_if(rows_.begin(), rows_.end(), [&](const Row& r) { return r.rank == rank; });
        return row == rows_.end() ? std::nullopt : std::optional(row->y);
      });
}

void TimelinePanel::handle_mouse(const Surface& ui, TraceModel& model, ViewState& state,
                                 const Box& box) {
  const ImGuiIO& io = ImGui::GetIO();
  const TimeStretch stretch = time_stretch(box, ui.theme.px(state.gutter), ui.theme.px(8));
  const float left = stretch.left, width = stretch.width;
  const bool over = box.contains(io.MousePos) && ImGui::IsWindowHovered();
  if (over && io.MousePos.x >= left) {
    state.point_at(io.MousePos.x, left, width);
    if (io.MouseWheel != 0 && io.KeyShift) scroll_ -= io.MouseWheel * 60;
    if (io.MouseWheel != 0 && !io.KeyShift) {
      state.time.zoom(std::pow(1.25, io.MouseWheel), (io.MousePos.x - left) / width);
    }
    if (io.MouseWheelH != 0) state.time.pan(-io.MouseWheelH * 0.1);
  }
  for (int button : {0, 1, 2}) {
    const bool mine =
        box.contains(io.MouseClickedPos[button]) && io.MouseClickedPos[button].x >= left;
    if (!mine || !ImGui::IsMouseDragging(button, 4)) continue;
    if (button == 2 || (button == 0 && io.KeyCtrl)) {
      const Time one = state.time.time_at(io.MouseClickedPos[button].x, left, width);
      const Time other = state.time.time_at(io.MousePos.x, left, width);
      state.measured = std::minmax(one, other);
      zooms_ = button == 2;
    } else {
      state.time.pan(-io.MouseDelta.x / width);
      scroll_ -= io.MouseDelta.y;
    }
  }
  if (zooms_ && !ImGui::IsMouseDown(2)) {  // what was measured fills the view
    zooms_ = false;
    if (state.measured) state.time.show(state.measured->first, state.measured->second);
    state.measured.reset();
  }
  if (!over) return;
  const auto slack = static_cast<Time>(3 * state.time.ns_per_px(width));
  for (const LaneBox& lane : lane_boxes_) {
    if (io.MousePos.y < lane.y || io.MousePos.y >= lane.y + lane.height || !state.cursor) continue;
    state.hovered = span_at(model, lane.rank, lane.stream, *state.cursor, slack);
  }
  if (ImGui::IsMouseDoubleClicked(0) && state.hovered) {
    const auto [begin, ready, end] = model.times(*state.hovered);
    const Time margin = std::max<Time>((end - begin) / 8, 100);
    state.time.show(begin - margin, end + margin);
    state.selection = state.hovered;
  }
  const bool clicked = ImGui::IsMouseReleased(0) && io.MouseDragMaxDistanceSqr[0] < 16;
  if (!clicked || !box.contains(io.MouseClickedPos[0])) return;
  if (io.MousePos.x >= left) state.selection = state.hovered;
  for (const Row& row : rows_) {
    const bool on_row = io.MousePos.y >= row.y && io.MousePos.y < row.y + row.height;
    if (on_row && (io.MousePos.x < left || state.hovered)) state.rank = row.rank;
    if (on_row) break;  // pinned rows come first
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

// Brings the opened rank into view; rows above it are whole, none is cut at the top.
void TimelinePanel::scroll_to_rank(const Surface& ui, TraceModel& model, ViewState& state,
                                   const Box& rows) {
  for (const Row& row : rows_) {
    if (row.rank != state.rank || row.pinned) continue;
    const float other = rows_.size() > 1 ? rows_[row.rank == rows_[0].rank ? 1 : 0].height : 1;
    const float wanted = row.y + scroll_ - rows.min.y - (rows.height() - row.height) / 2;
    scroll_ = std::floor(wanted / other) * other;
  }
  // The legend below takes its room a frame later.
  state.scroll_to_rank = rows.height() != scrolled_height_;
  scrolled_height_ = rows.height();
  draw_scrollbar(ui, rows);
  lay_out(ui, model, state, rows);
}

void TimelinePanel::draw(Surface& ui, TraceModel& model, ViewState& state, const Box& box) {
  ImDrawList* draw = ImGui::GetWindowDrawList();
  draw->AddRectFilled(box.min, box.max, ui.theme.panel);
  // The legend names what the frame before drew.
  SeenMarks before = painter_.seen();
  before.path = path_drawn_;
  const float legend =
      std::min(operation_legend_height(ui, model, before, box.width()), box.height() / 3);
  const Box rows{box.min, {box.max.x, box.max.y - legend}};
  state.place("timeline/rows", rows.min, rows.max);
  draw_time_grid(ui, model, state, rows);
  lay_out(ui, model, state, rows);
  if (state.scroll_to_rank) scroll_to_rank(ui, model, state, rows);
  draw->PushClipRect(rows.min, rows.max, true);
  draw_rows(ui, model, state, rows);
  path_drawn_ = draw_path(ui, model, state, rows);
  handle_mouse(ui, model, state, rows);
  draw_selection(ui, model, state, rows);
  draw_flow_lines(ui, model, state, rows, [&](Rank rank, std::int32_t stream) {
    for (const LaneBox& lane : lane_boxes_) {
      if (lane.rank == rank && lane.stream == stream) {
        return std::optional(std::floor(lane.y + lane.height / 2));
      }
    }
    return std::optional<float>();
  });
  painter_.draw_labels();
  draw_scrollbar(ui, rows);
  draw->PopClipRect();
  draw_problem_marks(ui, model, state, rows);
  if (legend > 0)
    draw_operation_legend(ui, model, state, before, {{box.min.x, rows.max.y}, box.max});
  if (state.hovered) draw_span_tooltip(ui, model, *state.hovered);
}

void draw_span_tooltip(const Surface& ui, TraceModel& model, const SpanRef& span) {
  const SpanLines lines = span_lines(model, span);
  ImGui::BeginTooltip();
  ImGui::PushFont(ui.fonts.strong);
  ImGui::TextUnformatted(lines.title.c_str());
  ImGui::PopFont();
  ImGui::PushStyleColor(ImGuiCol_Text, ui.theme.dim);
  for (const std::string& line : lines.place) ImGui::TextUnformatted(line.c_str());
  ImGui::PopStyleColor();
  for (const std::string& line : lines.figures) ImGui::TextUnformatted(line.c_str());
  ImGui::EndTooltip();
}

}  // namespace tessera::inspector
