// SPDX-License-Identifier: Apache-2.0
#include "inspector/communication/communication_panel.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <set>

#include "inspector/widgets/drawing.h"
#include "inspector/widgets/format.h"

namespace tessera::inspector {
namespace {

constexpr std::size_t points_max = 4000;
constexpr float scatter_axis = 84;

/// One column of the table. Those of a higher rank are left out first where there is little room.
struct Column {
  const char* title;
  float width;      // px at scale 1
  int dispensable;  // 0: always shown
  bool left;        // text, not a number
  std::string (*text)(const analysis::GroupUsage&);
};

using Row = analysis::GroupUsage;

constexpr Column table_columns[] = {
    {"kind", 128, 0, true, [](const Row& r) { return std::string(name_of(r.kind)); }},
    {"group", 150, 1, true,
     [](const Row& r) { return fmt::format("{} of {} ranks", r.group, r.group_size); }},
    {"algorithm", 110, 4, true, [](const Row& r) { return r.algorithm; }},
    {"count", 76, 3, false, [](const Row& r) { return format_count(r.count); }},
    {"bytes", 84, 2, false, [](const Row& r) { return format_bytes(r.bytes); }},
    {"wait", 84, 3, false, [](const Row& r) { return format_time(r.wait); }},
    {"transfer", 84, 1, false, [](const Row& r) { return format_time(r.transfer); }},
    {"exposed", 84, 0, false, [](const Row& r) { return format_time(r.exposed); }},
    {"algbw", 92, 5, false,
     [](const Row& r) {
       return r.algorithm_bandwidth > 0 ? format_rate(r.algorithm_bandwidth) : "";
     }},
    {"busbw", 92, 1, false,
     [](const Row& r) { return r.bus_bandwidth > 0 ? format_rate(r.bus_bandwidth) : ""; }},
};

// The columns that fit, the most important ones.
std::vector<const Column*> fitting(const Surface& ui, float width) {
  std::vector<const Column*> shown;
  for (int most = 5; most >= 0; --most) {
    shown.clear();
    float sum = 0;
    for (const Column& column : table_columns) {
      if (column.dispensable > most) continue;
      shown.push_back(&column);
      sum += ui.theme.px(column.width);
    }
    if (sum <= width) break;
  }
  return shown;
}

void open_op(TraceModel& model, ViewState& state, std::int32_t op) {
  const auto span = model.find(state.rank, op);
  if (!span) return;
  state.selection = span;
  state.open_rank(state.rank);
  const analysis::SpanFacts facts = model.facts(*span);
  const Time around = std::max<Time>(4 * facts.duration, 1000);
  state.time.show(facts.begin - around, facts.begin + facts.duration + around);
}

Colour colour_of_kind(const Surface& ui, OpKind kind) {
  storage::OpRow op;
  op.kind = kind;
  return ui.colours().of(class_of(op));
}

/// Powers of two or ten on an axis of `length` px.
struct LogAxis {
  double low = 0, high = 1;  // logarithms
  float length = 1;

  LogAxis(double least, double most, float px) : length(px) {
    low = std::floor(std::log10(std::max(least, 1.0)));
    high = std::max(low + 1, std::ceil(std::log10(std::max(most, 1.0))));
  }
  float place(double value) const {
    return static_cast<float>((std::log10(std::max(value, 1.0)) - low) / (high - low)) * length;
  }
};

}  // namespace

CommunicationPanel::~CommunicationPanel() {
  if (job_.valid()) job_.wait();
}

// Spans that begin in the range, beside all that hides them.
CommunicationPanel::Found CommunicationPanel::sum_up(analysis::Trace& trace, const Wanted& wanted) {
  constexpr std::int32_t steps_at_once = 32;
  Found found;
  analysis::UsageSum sum;
  const auto end_of = [&](std::int32_t step) {
    return trace.step_range(std::min(step, trace.last_step())).second + 1;
  };
  for (Time from = wanted.from; from < wanted.to;) {
    const std::int32_t last = trace.step_at(from) + steps_at_once;
    const Time to = last >= trace.last_step() ? wanted.to : std::min(end_of(last), wanted.to);
    // What hides the last ones may be a step further on.
    const auto lanes = trace.reader().lanes(wanted.rank, from, std::max(to, end_of(last + 2)));
    found.problem = lanes.status();
    if (!lanes.ok()) return found;
    std::vector<const storage::Lane*> all;
    for (const storage::Lane& lane : *lanes) all.push_back(&lane);
    sum.add(trace, all, analysis::compute_lanes(trace, *lanes), from, to);
    trace.forget_ops();
    from = std::max(to, from + 1);
  }
  found.rows = sum.rows(trace);
  found.points = sum.points(points_max);
  return found;
}

void CommunicationPanel::take(bool waits) {
  constexpr std::chrono::seconds now{0};
  if (!job_.valid()) return;
  if (!waits && job_.wait_for(now) == std::future_status::timeout) return;
  Found found = job_.get();
  rows_ = std::move(found.rows);
  points_ = std::move(found.points);
  problem_ = found.problem;
  rank_ = sought_.rank;
  from_ = sought_.from;
  to_ = sought_.to;
}

void CommunicationPanel::find_out(const Surface& ui, TraceModel& model, ViewState& state) {
  take(false);
  const std::pair view{state.time.from(), state.time.to()};
  const auto range = state.measured.value_or(view);
  const Wanted wanted{state.rank, std::max<Time>(0, range.first),
                      std::min(model.info().end + 1, range.second)};
  if (wanted == Wanted{rank_, from_, to_}) return;
  if (!model.is_long()) {
    rank_ = wanted.rank;
    from_ = wanted.from;
    to_ = wanted.to;
    const RankData& data = model.rank(rank_);
    std::vector<const storage::Lane*> lanes;
    for (const LaneData& lane : data.lanes) lanes.push_back(&lane.spans);
    rows_ = analysis::group_usage(model, lanes, data.compute, from_, to_);
    points_ = analysis::transfer_points(model, lanes, from_, to_, points_max);
    return;
  }
  state.busy = true;
  if (job_.valid()) return;
  sought_ = wanted;
  if (source_ == nullptr) source_ = std::make_shared<std::optional<analysis::Trace>>();
  const auto seek = [source = source_, path = model.path(), wanted]() -> Found {
    if (!*source) {
      auto opened = analysis::Trace::open(path, analysis::Trace::Check::later);
      if (!opened.ok()) return {{}, {}, opened.status()};
      source->emplace(std::move(opened).value());
    }
    return sum_up(**source, wanted);
  };
  job_ = std::async(ui.scripted ? std::launch::deferred : std::launch::async, seek);
  if (ui.scripted) take(true);
}

float CommunicationPanel::draw_head(Surface& ui, TraceModel& model, ViewState& state,
                                    const Box& box) {
  const float pad = ui.theme.px(14);
  float y = box.min.y + ui.theme.px(12);
  const std::string words =
      fmt::format("Rank {}, {} to {}: {}{}", rank_, format_time(from_), format_time(to_),
                  !problem_.ok()  ? problem_.message()
                  : rank_ < 0     ? "nothing is summed up yet"
                  : rows_.empty() ? "no collectives"
                                  : "the most exposed first",
                  job_.valid() ? fmt::format("; summing up {} to {} ...", format_time(sought_.from),
                                             format_time(sought_.to))
                               : "");
  draw_wrapped(ui.fonts.strong, {box.min.x + pad, y}, ui.theme.text, words, box.width() - 2 * pad);
  y += wrapped_height(ui.fonts.strong, words, box.width() - 2 * pad) + ui.theme.px(8);
  const auto button = [&](const char* label, const char* name, Time from, Time to) {
    const bool on = from_ == from && to_ == to;
    if (!tab_button(ui, state, label, name, on)) return;
    state.measured.reset();
    state.time.show(from, to);
  };
  ImGui::SetCursorScreenPos({box.min.x + pad, y});
  button("Whole run", "communication/run", 0, model.info().end);
  const Time middle = state.time.from() + (state.time.to() - state.time.from()) / 2;
  const auto [begin, end] = model.step_range(model.step_at(middle));
  ImGui::SameLine(0, ui.theme.px(4));
  button("Step", "communication/step", begin, end);
  return y + ImGui::GetFrameHeight() + ui.theme.px(10);
}

float CommunicationPanel::draw_table(Surface& ui, TraceModel& model, ViewState& state,
                                     const Box& box) {
  const Theme& theme = ui.theme;
  const float pad = theme.px(14), line = theme.row_px;
  if (rows_.empty()) return box.min.y;  // the head says so
  const auto shown = fitting(ui, box.width() - 2 * pad);
  const auto draw_cells = [&](float y, auto text_of, Colour colour) {
    float x = box.min.x + pad;
    ImGui::PushFont(ui.fonts.body);
    for (const Column* column : shown) {
      const float wide = theme.px(column->width);
      const std::string words = fitted(text_of(*column), wide - theme.px(8));
      const ImVec2 at{column->left ? x : x + wide - theme.px(8), y + theme.px(4)};
      column->left ? draw_text(ui.fonts.body, at, colour, words)
                   : draw_text_right(ui.fonts.body, at, colour, words);
      x += wide;
    }
    ImGui::PopFont();
  };
  float y = box.min.y;
  draw_cells(
      y, [](const Column& c) { return std::string(c.title); }, theme.dim);
  y += line;
  for (std::size_t k = 0; k < rows_.size() && y + line <= box.max.y; ++k) {
    const Row& row = rows_[k];
    const Box place{{box.min.x + pad / 2, y}, {box.max.x - pad / 2, y + line}};
    const bool hovered = place.contains(ImGui::GetIO().MousePos) && ImGui::IsWindowHovered();
    if (hovered) ImGui::GetWindowDrawList()->AddRectFilled(place.min, place.max, theme.hover, 4);
    ImGui::GetWindowDrawList()->AddRectFilled({place.min.x, y + theme.px(5)},
                                              {place.min.x + theme.px(4), y + line - theme.px(5)},
                                              colour_of_kind(ui, row.kind));
    draw_cells(
        y, [&](const Column& c) { return c.text(row); }, theme.text);
    state.place(fmt::format("communication/{}", k), place.min, place.max);
    state.fields[fmt::format("communication/{}", k)] =
        fmt::format("{} {} exposed, {}", name_of(row.kind), format_time(row.exposed),
                    format_rate(row.bus_bandwidth));
    if (hovered && ImGui::IsMouseClicked(0)) open_op(model, state, row.costliest);
    y += line;
  }
  return y;
}

void CommunicationPanel::draw_scatter(Surface& ui, TraceModel& model, ViewState& state,
                                      const Box& box) {
  const Theme& theme = ui.theme;
  const Box plot{{box.min.x + theme.px(scatter_axis), box.min.y + theme.px(40)},
                 {box.max.x - theme.px(24), box.max.y - theme.px(36)}};
  if (points_.empty() || plot.width() < theme.px(120) || plot.height() < theme.px(80)) return;
  draw_text(ui.fonts.strong, {box.min.x + theme.px(14), box.min.y + theme.px(10)}, theme.text,
            "Bus bandwidth by size");
  double least = 1e300, most = 0, slow = 1e300, fast = 0;
  for (const auto& point : points_) {
    least = std::min(least, static_cast<double>(point.bytes.value));
    most = std::max(most, static_cast<double>(point.bytes.value));
    slow = std::min(slow, point.bus_bandwidth);
    fast = std::max(fast, point.bus_bandwidth);
  }
  const LogAxis across(least, most, plot.width()), up(slow, fast, plot.height());
  ImDrawList* draw = ImGui::GetWindowDrawList();
  for (double power = across.low; power <= across.high; power += 1) {
    const double value = std::pow(10.0, power);
    const float x = std::floor(plot.min.x + across.place(value));
    draw->AddRectFilled({x, plot.min.y}, {x + 1, plot.max.y}, theme.line);
    const std::string label = format_bytes(Bytes{static_cast<std::int64_t>(value)});
    draw_text(ui.fonts.small, {x - text_width(ui.fonts.small, label) / 2, plot.max.y + theme.px(6)},
              theme.dim, label);
  }
  for (double power = up.low; power <= up.high; power += 1) {
    const double value = std::pow(10.0, power);
    const float y = std::floor(plot.max.y - up.place(value));
    draw->AddRectFilled({plot.min.x, y}, {plot.max.x, y + 1}, theme.line);
    draw_text_right(ui.fonts.small, {plot.min.x - theme.px(8), y - ui.fonts.small->FontSize / 2},
                    theme.dim, format_rate(value));
  }
  const float r = theme.px(3);
  const analysis::TransferPoint* nearest = nullptr;
  // Points on the same pixels are drawn once.
  std::set<std::pair<int, int>> drawn;
  for (const auto& point : points_) {
    const ImVec2 at{std::floor(plot.min.x + across.place(static_cast<double>(point.bytes.value))),
                    std::floor(plot.max.y - up.place(point.bus_bandwidth))};
    const Box place{{at.x - r, at.y - r}, {at.x + r, at.y + r}};
    if (place.contains(ImGui::GetIO().MousePos) && ImGui::IsWindowHovered()) nearest = &point;
    if (!drawn.insert({static_cast<int>(at.x), static_cast<int>(at.y)}).second) continue;
    draw->AddRectFilled(place.min, place.max, colour_of_kind(ui, point.kind), theme.px(2));
  }
  if (nearest == nullptr) return;
  const storage::OpRow& op = model.op(nearest->op);
  ImGui::SetTooltip("%s %s, step %d\n%s, %s", std::string(name_of(op.kind)).c_str(),
                    op.unit.c_str(), op.step, format_bytes(op.bytes).c_str(),
                    format_rate(nearest->bus_bandwidth).c_str());
  if (ImGui::IsMouseClicked(0)) open_op(model, state, nearest->op);
}

void CommunicationPanel::draw(Surface& ui, TraceModel& model, ViewState& state, const Box& box) {
  find_out(ui, model, state);
  ImDrawList* draw = ImGui::GetWindowDrawList();
  draw->PushClipRect(box.min, box.max, true);
  draw->AddRectFilled(box.min, box.max, ui.theme.panel);
  const float head = draw_head(ui, model, state, box);
  const float table = draw_table(ui, model, state, {{box.min.x, head}, box.max});
  draw_scatter(ui, model, state, {{box.min.x, table + ui.theme.px(8)}, box.max});
  draw->PopClipRect();
}

}  // namespace tessera::inspector
