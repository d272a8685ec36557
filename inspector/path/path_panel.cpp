// SPDX-License-Identifier: Apache-2.0
#include "inspector/path/path_panel.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "inspector/widgets/drawing.h"
#include "inspector/widgets/format.h"
#include "inspector/widgets/legend.h"
#include "inspector/widgets/op_text.h"
#include "inspector/widgets/show_op.h"

namespace tessera::inspector {
namespace {

using analysis::CriticalPath;
using analysis::PathGroup;
using analysis::PathPart;
using analysis::PathSegment;
using analysis::Shortening;

constexpr float table_width = 800;   // px, of two; wider, rows are hard to follow
constexpr float beside_from = 1240;  // from which on two tables stand side by side
constexpr float number_width = 110;  // of a column
constexpr float least_name = 150;    // numbers are left out before names are shorter

const char* heading_of(PathGroup group) {
  switch (group) {
    case PathGroup::operation: return "Operations";
    case PathGroup::unit: return "Units";
    case PathGroup::rank: return "Ranks, without collectives";
  }
  return "";
}

Colour colour_of(const Surface& ui, const TraceModel& model, const PathSegment& segment) {
  // Not that of copies, which share the host's.
  if (segment.part == PathPart::host) return mix(ui.theme.panel, ui.theme.text, 96);
  const Colour colour = ui.colours().of(class_of(model.op(segment.op)));
  return segment.part == PathPart::wait ? mix(ui.theme.panel, colour, 72) : colour;
}

void open_on_path(TraceModel& model, ViewState& state, Rank rank, std::int32_t op) {
  show_op(model, state, rank, op);
  state.show_path = true;
}

// "Step 1 takes 28.0 ms, 97.5 % of it in computations and copies of rank 5", the largest part
// first.
std::string summary_of(const TraceModel& model, const CriticalPath& path) {
  Time collectives = 0, own = 0;
  std::map<Rank, Time> by_rank;
  for (const PathSegment& segment : path.segments) {
    if (segment.part != PathPart::work) continue;
    const Time time = segment.to - segment.from;
    if (is_collective(model.op(segment.op).kind)) {
      collectives += time;
    } else {
      by_rank[segment.rank] += time;
      own += time;
    }
  }
  std::vector<std::pair<Time, std::string>> parts = {
      {collectives, "in collectives"},
      {path.time_of(PathPart::wait), "waiting for ranks that were not recorded"},
      {path.time_of(PathPart::host), "until the host had issued what came next"}};
  if (!by_rank.empty()) {
    const auto busiest =
        std::max_element(by_rank.begin(), by_rank.end(),
                         [](const auto& a, const auto& b) { return a.second < b.second; });
    parts.emplace_back(busiest->second,
                       fmt::format("in computations and copies of rank {}", busiest->first));
    parts.emplace_back(own - busiest->second, "in those of other ranks");
  }
  std::sort(parts.rbegin(), parts.rend());
  const Time all = path.end - path.begin;
  std::string words = fmt::format("Step {} takes {}", path.step, format_time(all));
  const char* of = " of it ";
  for (const auto& [time, what] : parts) {
    constexpr double least_share = 0.001;  // less is not worth a word
    const double share = static_cast<double>(time) / static_cast<double>(all);
    if (time <= 0 || share < least_share) continue;
    words += fmt::format(", {}{}{}", format_percent(share), std::exchange(of, " "), what);
  }
  return words;
}

// The colours of the ribbon; returns where they end.
float draw_colours(const Surface& ui, const TraceModel& model, const CriticalPath& path,
                   const Box& box) {
  std::vector<LegendEntry> entries;
  for (const PathSegment& segment : path.segments) {
    const bool host = segment.part == PathPart::host;
    std::string words = host ? "late host" : model.class_name(class_of(model.op(segment.op)));
    if (segment.part == PathPart::wait) words += ", waiting";
    const LegendEntry entry{LegendMark::colour, colour_of(ui, model, segment), std::move(words)};
    const bool there = std::any_of(entries.begin(), entries.end(), [&](const LegendEntry& other) {
      return other.colour == entry.colour && other.words == entry.words;
    });
    if (!there) entries.push_back(entry);
  }
  draw_legend(ui, entries, box);
  return box.min.y + legend_height(ui, entries, box.width());
}

}  // namespace

float PathPanel::draw_head(Surface& ui, TraceModel& model, ViewState& state,
                           const CriticalPath& path, const Box& box) {
  const std::string words = summary_of(model, path);
  state.fields["path"] = words;
  const float tall = draw_wrapped(ui.fonts.title, box.min, ui.theme.text, words, box.width());
  float y = box.min.y + tall + ui.theme.px(8);
  const auto show = [&](const char* label, const char* name, std::int32_t step) {
    if (!tab_button(ui, state, label, name, false)) return;
    const auto [begin, end] = model.step_range(step);
    state.time.show(begin, end);
  };
  ImGui::SetCursorScreenPos({box.min.x, y});
  if (path.step > 0) {
    show("← Step before", "path/before", path.step - 1);
    ImGui::SameLine(0, ui.theme.px(4));
  }
  if (path.step < model.last_step()) {
    show("Step after →", "path/after", path.step + 1);
    ImGui::SameLine(0, ui.theme.px(4));
  }
  if (tab_button(ui, state, "Show in the timeline", "path/timeline", false)) {
    state.show_path = true;
    state.panel = "all";
    state.time.show(path.begin, path.end);
  }
  return y + ImGui::GetFrameHeight() + ui.theme.px(12);
}

// The path from left to right; what is narrower than a pixel belongs to the pixel's first.
float PathPanel::draw_ribbon(Surface& ui, TraceModel& model, ViewState& state,
                             const CriticalPath& path, const Box& box) {
  const float height = ui.theme.px(28), width = std::max(box.width(), 1.0F);
  const auto x_of = [&](Time time) {
    const double share =
        static_cast<double>(time - path.begin) / static_cast<double>(path.end - path.begin);
    return box.min.x + std::floor(static_cast<float>(share) * width);
  };
  ImDrawList* draw = ImGui::GetWindowDrawList();
  const ImVec2 mouse = ImGui::GetIO().MousePos;
  const PathSegment* hovered = nullptr;
  float drawn = box.min.x;
  for (const PathSegment& segment : path.segments) {
    const float x0 = std::max(drawn, x_of(segment.from)), x1 = x_of(segment.to);
    if (x1 <= x0) continue;
    const float gap = x1 - x0 >= 4 ? 1 : 0;
    draw->AddRectFilled({x0, box.min.y}, {x1 - gap, box.min.y + height},
                        colour_of(ui, model, segment));
    drawn = x1;
    const Box place{{x0, box.min.y}, {x1, box.min.y + height}};
    if (place.contains(mouse) && ImGui::IsWindowHovered()) hovered = &segment;
  }
  state.place("path/ribbon", box.min, {box.min.x + width, box.min.y + height});
  float y = box.min.y + height + ui.theme.px(4);
  draw_text(ui.fonts.small, {box.min.x, y}, ui.theme.dim,
            format_moment(path.begin, path.end - path.begin));
  draw_text_right(ui.fonts.small, {box.min.x + width, y}, ui.theme.dim,
                  format_moment(path.end, path.end - path.begin));
  y = draw_colours(ui, model, path, {{box.min.x, y + ui.theme.px(20)}, {box.max.x, box.max.y}});
  if (hovered != nullptr) {
    const storage::OpRow& op = model.op(hovered->op);
    ImGui::SetTooltip("%s %s\nrank %d, %s, %s", title_of(op).c_str(),
                      short_name(subject_of(op)).c_str(), hovered->rank,
                      std::string(name_of(hovered->part)).c_str(),
                      format_time(hovered->to - hovered->from).c_str());
    if (ImGui::IsMouseClicked(0)) open_on_path(model, state, hovered->rank, hovered->op);
  }
  return y + ui.theme.px(14);
}

float PathPanel::draw_rows(Surface& ui, TraceModel& model, ViewState& state,
                           const CriticalPath& path, PathGroup group, const Box& box) {
  const auto is_of_group = [group](const Shortening& row) { return row.group == group; };
  if (std::none_of(path.rows.begin(), path.rows.end(), is_of_group)) return box.min.y;
  const Theme& theme = ui.theme;
  const auto step = static_cast<double>(path.end - path.begin);
  const float number = theme.px(number_width), line = theme.row_px, pad = theme.px(8);
  // From the right: the gain, its bar, the time on the path, its share.
  const int numbers =
      std::clamp(static_cast<int>((box.width() - theme.px(least_name)) / number), 1, 4);
  const float gain_at = box.max.x - pad;
  const float name_room = box.width() - number * static_cast<float>(numbers) - 2 * pad;
  ImDrawList* draw = ImGui::GetWindowDrawList();
  float y = box.min.y;
  const auto cells = [&](const std::string& name, const std::string& on_path,
                         const std::string& share, const std::string& gain, ImFont* font,
                         Colour colour) {
    const float base = y + (line - font->FontSize) / 2;
    ImGui::PushFont(font);
    draw_text(font, {box.min.x + pad, base}, colour, fitted_path(name, name_room));
    ImGui::PopFont();
    draw_text_right(font, {gain_at, base}, colour, gain);
    if (numbers > 3) draw_text_right(font, {gain_at - 3 * number, base}, colour, share);
    if (numbers > 2) draw_text_right(font, {gain_at - 2 * number, base}, colour, on_path);
  };
  cells(heading_of(group), "on the path", "of the step", "step shorter by", ui.fonts.small,
        theme.dim);
  y += line;
  int count = 0;
  for (const Shortening& row : path.rows) {
    if (!is_of_group(row)) continue;
    const Box place{{box.min.x, y}, {box.max.x, y + line}};
    const bool hovered = place.contains(ImGui::GetIO().MousePos) && ImGui::IsWindowHovered();
    if (hovered) draw->AddRectFilled(place.min, place.max, theme.hover, theme.px(4));
    const std::string gain = format_time(row.gain);
    cells(row.what, format_time(row.on_path),
          format_percent(static_cast<double>(row.on_path) / step), gain, ui.fonts.body, theme.text);
    if (numbers > 1) {
      const auto share =
          static_cast<float>(static_cast<double>(row.gain) / (step * analysis::shortened_by));
      const float least = row.gain > 0 ? theme.px(1) : 0;  // a stroke, as what is there shows
      const float length = std::max(share * (number - pad), least);
      const float left = gain_at - 2 * number + pad;
      draw->AddRectFilled({left, y + theme.px(8)}, {left + length, y + line - theme.px(8)},
                          theme.accent, theme.px(2));
    }
    const std::string name = fmt::format("path/{}/{}", name_of(group), count++);
    state.place(name, place.min, place.max);
    state.fields[name] = fmt::format("{} {}", row.what, gain);
    if (hovered && ImGui::IsMouseClicked(0)) open_on_path(model, state, row.rank, row.op);
    y += line;
  }
  return y + theme.px(14);
}

// Below each other, or, where there is room for it, units and ranks beside operations.
float PathPanel::draw_tables(Surface& ui, TraceModel& model, ViewState& state,
                             const CriticalPath& path, const Box& box) {
  const float gap = ui.theme.px(40);
  const bool beside = box.width() > ui.theme.px(beside_from);
  const float most = beside ? (box.width() - gap) / 2 : box.width();
  const float wide = beside ? std::min(most, ui.theme.px(table_width)) : most;
  const Box first{box.min, {box.min.x + wide, box.max.y}};
  const float below = draw_rows(ui, model, state, path, PathGroup::operation, first);
  const float left = beside ? first.max.x + gap : box.min.x;
  float y = beside ? box.min.y : below;
  for (const PathGroup group : {PathGroup::unit, PathGroup::rank}) {
    y = draw_rows(ui, model, state, path, group, {{left, y}, {left + wide, box.max.y}});
  }
  return std::max(below, y);
}

void PathPanel::draw(Surface& ui, TraceModel& model, ViewState& state, const Box& box) {
  ImGui::GetWindowDrawList()->AddRectFilled(box.min, box.max, ui.theme.panel);
  ImGui::SetCursorScreenPos(box.min);
  ImGui::BeginChild("path", {box.width(), box.height()}, false);
  const float pad = std::min(ui.theme.px(14), box.width() / 8);
  const ImVec2 at = ImGui::GetCursorScreenPos();
  const float x = at.x + pad, right = at.x + box.width() - 2 * pad;
  float y = at.y + ui.theme.px(12);
  const Time middle = state.time.from() + (state.time.to() - state.time.from()) / 2;
  const Result<CriticalPath>& path = model.critical_path(model.step_at(middle));
  if (!path.ok()) {
    draw_wrapped(ui.fonts.body, {x, y}, ui.colours().fail, "⚠ " + path.status().message(),
                 right - x);
  } else if (path->step < 0) {
    draw_wrapped(ui.fonts.body, {x, y}, ui.theme.dim,
                 "No complete step was recorded: there is no path.", right - x);
  } else {
    y = draw_head(ui, model, state, *path, {{x, y}, {right, box.max.y}});
    y = draw_ribbon(ui, model, state, *path, {{x, y}, {right, box.max.y}});
    const std::string words =
        "If these took 10 % less time, and everything else as long as it did:";
    y += draw_wrapped(ui.fonts.strong, {x, y}, ui.theme.text, words, right - x) + ui.theme.px(6);
    y = draw_tables(ui, model, state, *path, {{x, y}, {right, box.max.y}});
  }
  ImGui::SetCursorScreenPos({x, y});
  ImGui::Dummy({1, 1});  // how far the window scrolls
  ImGui::EndChild();
}

}  // namespace tessera::inspector
