// SPDX-License-Identifier: Apache-2.0
#include "inspector/communication/communication_panel.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "inspector/communication/transfer_scatter.h"
#include "inspector/communication/usage_table.h"
#include "inspector/widgets/drawing.h"
#include "inspector/widgets/format.h"

namespace tessera::inspector {
namespace {

using analysis::UsageBy;

constexpr std::size_t points_max = 4000;
constexpr float least_scatter = 260;  // px; below a long table one scrolls to it

}  // namespace

CommunicationPanel::~CommunicationPanel() {
  if (job_.valid()) job_.wait();
}

// Spans that begin in the range, beside all that hides them.
CommunicationPanel::Found CommunicationPanel::sum_up(analysis::Trace& trace, const Wanted& wanted) {
  constexpr std::int32_t steps_at_once = 32;
  Found found;
  analysis::UsageSum sum(wanted.by);
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
  shown_ = sought_;
}

std::pair<Time, Time> CommunicationPanel::range_of(const TraceModel& model,
                                                   const ViewState& state) const {
  if (state.measured) return *state.measured;
  const Time from = state.time.from(), to = state.time.to();
  switch (scope_) {
    case Scope::step: return model.step_range(model.step_at(from + (to - from) / 2));
    case Scope::run: return {0, model.info().end};
    case Scope::view: break;
  }
  return {from, to};
}

void CommunicationPanel::find_out(const Surface& ui, TraceModel& model, ViewState& state) {
  take(false);
  const auto range = range_of(model, state);
  const Wanted wanted{state.rank, std::max<Time>(0, range.first),
                      std::min(model.info().end + 1, range.second), by_};
  if (wanted == shown_) return;
  if (!model.is_long()) {
    shown_ = wanted;
    const RankData& data = model.rank(shown_.rank);
    problem_ = data.problem;
    std::vector<const storage::Lane*> lanes;
    for (const LaneData& lane : data.lanes) lanes.push_back(&lane.spans);
    rows_ = analysis::group_usage(model, lanes, data.compute, shown_.from, shown_.to, by_);
    points_ = analysis::transfer_points(model, lanes, shown_.from, shown_.to, points_max);
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

// Which range, and what rows are of. They go on in a second line where one is too short.
void CommunicationPanel::draw_choices(Surface& ui, const TraceModel& model, ViewState& state,
                                      ImVec2 at) {
  const float gap = ui.theme.px(4), left = at.x,
              end = ImGui::GetWindowPos().x + ImGui::GetWindowWidth() - ui.theme.px(14);
  const auto button = [&](const std::string& label, const char* name, bool on) {
    const float wide = ImGui::CalcTextSize(label.c_str()).x + 2 * ImGui::GetStyle().FramePadding.x;
    if (at.x > left && at.x + wide > end) at = {left, at.y + ImGui::GetFrameHeight() + gap};
    ImGui::SetCursorScreenPos(at);
    at.x += wide + gap;
    return tab_button(ui, state, label.c_str(), name, on);
  };
  const auto scope = [&](const std::string& label, const char* name, Scope chosen) {
    if (!button(label, name, !state.measured && chosen == scope_)) return;
    state.measured.reset();
    scope_ = chosen;
  };
  const Time middle = state.time.from() + (state.time.to() - state.time.from()) / 2;
  scope(fmt::format("Step {}", model.step_at(middle)), "communication/step", Scope::step);
  scope("In view", "communication/view", Scope::view);
  scope("Whole run", "communication/run", Scope::run);
  if (state.measured) button("Measured", "communication/measured", true);
  at.x += ui.theme.px(12);
  const auto of = [&](const char* label, const char* name, UsageBy by) {
    if (button(label, name, by == by_)) by_ = by;
  };
  of("By group", "communication/by group", UsageBy::group);
  of("By unit", "communication/by unit", UsageBy::unit);
  of("All operations", "communication/by operation", UsageBy::operation);
  at.x += ui.theme.px(12);
  if (!rows_.empty() && button("Copy as CSV", "communication/copy", false)) {
    ImGui::SetClipboardText(usage_csv(rows_).c_str());
  }
  if (!rows_.empty() && button("Copy as SQL", "communication/copy sql", false)) {
    const std::string sql = usage_sql(shown_.by, shown_.rank, shown_.from, shown_.to);
    ImGui::SetClipboardText(sql.c_str());
  }
  ImGui::SetCursorScreenPos({left, at.y + ImGui::GetFrameHeight()});
}

float CommunicationPanel::draw_head(Surface& ui, TraceModel& model, ViewState& state,
                                    const Box& box) {
  const float pad = ui.theme.px(14);
  float y = box.min.y + ui.theme.px(12);
  const std::string order =
      by_ == UsageBy::operation ? "the longest first" : "the most exposed first";
  const Time range = shown_.to - shown_.from;
  const std::string words =
      fmt::format("Rank {}, {} to {}: {}{}", shown_.rank, format_moment(shown_.from, range),
                  format_moment(shown_.to, range),
                  !problem_.ok()    ? problem_.message()
                  : shown_.rank < 0 ? "nothing is summed up yet"
                  : rows_.empty()   ? "no collectives"
                                    : order,
                  job_.valid() ? fmt::format("; summing up {} to {} ...", format_time(sought_.from),
                                             format_time(sought_.to))
                               : "");
  state.fields["communication"] = words;
  const ImVec2 head{box.min.x + pad, y};
  y += draw_wrapped(ui.fonts.strong, head, ui.theme.text, words, box.width() - 2 * pad) +
       ui.theme.px(8);
  draw_choices(ui, model, state, {box.min.x + pad, y});
  return ImGui::GetCursorScreenPos().y + ui.theme.px(10);
}

void CommunicationPanel::draw(Surface& ui, TraceModel& model, ViewState& state, const Box& box) {
  find_out(ui, model, state);
  ImGui::GetWindowDrawList()->AddRectFilled(box.min, box.max, ui.theme.panel);
  ImGui::SetCursorScreenPos(box.min);
  ImGui::BeginChild("communication", {box.width(), box.height()}, false);
  const ImVec2 at = ImGui::GetCursorScreenPos();
  const float right = at.x + box.width() - ui.theme.px(6);
  float y = draw_head(ui, model, state, {at, {right, box.max.y}});
  if (!rows_.empty()) {  // else the head says so
    y = draw_usage_table(ui, model, state, rows_, shown_.by, {{at.x, y}, {right, box.max.y}});
  }
  y += ui.theme.px(8);
  const float end = std::max(box.max.y, y + ui.theme.px(least_scatter));
  if (!points_.empty()) draw_transfer_scatter(ui, model, state, points_, {{at.x, y}, {right, end}});
  ImGui::SetCursorScreenPos({at.x, points_.empty() ? y : end - 2});
  ImGui::Dummy({1, 1});  // how far the window scrolls
  ImGui::EndChild();
}

}  // namespace tessera::inspector
