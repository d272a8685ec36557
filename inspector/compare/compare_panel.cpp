// SPDX-License-Identifier: Apache-2.0
#include "inspector/compare/compare_panel.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>

#include "inspector/compare/memory_strip.h"
#include "inspector/compare/signed_text.h"
#include "inspector/widgets/drawing.h"
#include "inspector/widgets/format.h"
#include "inspector/widgets/gutter.h"
#include "inspector/widgets/op_text.h"

namespace tessera::inspector {
namespace {

using analysis::ComparedOp;
using analysis::ComparedSpan;

constexpr float lane_height = 20, lane_between = 2, difference_height = 7, block_gap = 12;
constexpr float ruler_room = 22;
constexpr float letters_px = 14;      // A and B beside the names of lanes
constexpr double full_colour = 0.25;  // B takes so much longer, or shorter, than A
constexpr float compare_width = 900;  // px of the tables

float block_height(const Surface& ui) {
  return ui.theme.px(2 * lane_height + 2 * lane_between + difference_height + block_gap);
}

}  // namespace

std::int32_t ComparePanel::stream_of(const ComparedOp& op) const {
  if (op.a.there()) return op.a.stream;
  const auto found = streams_.find(op.b.stream);
  return found == streams_.end() ? op.b.stream : found->second;
}

// Over the whole of both runs, beside the frames: by readers of its own, as what a trace has read
// of all operations it keeps.
void ComparePanel::find_causes(TraceModel& model, ViewState& state, bool patient) {
  constexpr std::chrono::seconds now{0};
  const TraceModel& other = *model.against();
  if (patient && !comparison_) comparison_ = analysis::compare(model, other);
  if (comparison_) return;
  if (!job_.valid()) {
    job_ = std::async(std::launch::async,
                      [this, a = model.path(), b = other.path()]() -> Result<analysis::Comparison> {
                        using analysis::Trace;
                        TESSERA_ASSIGN(const Trace of_a, Trace::open(a, Trace::Check::later));
                        TESSERA_ASSIGN(const Trace of_b, Trace::open(b, Trace::Check::later));
                        return analysis::compare(of_a, of_b, &stop_);
                      });
  }
  state.busy = true;
  if (job_.wait_for(now) == std::future_status::ready) comparison_ = job_.get();
}

void ComparePanel::find_out(TraceModel& model, ViewState& state, bool patient) {
  const TraceModel& other = *model.against();
  find_causes(model, state, patient);
  const Time middle = state.time.from() + (state.time.to() - state.time.from()) / 2;
  const std::int32_t step = model.step_at(middle);
  if (pairs_ && step == step_ && state.rank == rank_) return;
  step_ = step;
  rank_ = state.rank;
  pairs_ = analysis::pair_step(model, other, step_, rank_);
  streams_.clear();
  if (!pairs_->ok()) return;
  std::map<std::int32_t, std::map<std::int32_t, int>> votes;
  for (const ComparedOp& op : (*pairs_)->ops) {
    if (op.a.there() && op.b.there()) ++votes[op.b.stream][op.a.stream];
  }
  for (const auto& [stream, of_a] : votes) {
    streams_[stream] = std::max_element(of_a.begin(), of_a.end(), [](const auto& x, const auto& y) {
                         return x.second < y.second;
                       })->first;
  }
}

// A and B with the times of the step that is shown.
float ComparePanel::draw_head(Surface& ui, TraceModel& model, ViewState& state, const Box& box) {
  float y = box.min.y;
  const auto line = [&](ImFont* font, Colour colour, const std::string& words) {
    y += draw_wrapped(font, {box.min.x, y}, colour, words, box.width()) + ui.theme.px(4);
  };
  const auto name_of_run = [](const TraceModel& run) {
    return fmt::format("{} ({})", run.run().name.empty() ? "run" : run.run().name,
                       run.run().backend);
  };
  std::string a = "A  " + name_of_run(model), b = "B  " + name_of_run(*model.against());
  if (pairs_->ok()) {
    const analysis::StepPairs& pairs = **pairs_;
    a += fmt::format(": step {} of rank {} takes {}", pairs.step, pairs.rank,
                     format_time(pairs.time_a));
    b += fmt::format(": {}", format_time(pairs.time_b));
    if (pairs.time_a > 0) {
      const double share =
          static_cast<double>(pairs.time_b) / static_cast<double>(pairs.time_a) - 1;
      b += fmt::format(", {}", signed_share(share));
    }
    if (pairs.only_a + pairs.only_b > 0) {
      b += fmt::format("; operations only in A: {}, only in B: {}", pairs.only_a, pairs.only_b);
    }
  }
  state.fields["compare/a"] = a;
  state.fields["compare/b"] = b;
  line(ui.fonts.strong, ui.theme.text, a);
  line(ui.fonts.strong, ui.theme.text, b);
  if (!pairs_->ok()) line(ui.fonts.body, ui.colours().warn, "⚠ " + pairs_->status().message());
  return y + ui.theme.px(6);
}

// How much longer operations take in B, by colour; what is narrower than a pixel is summed.
void ComparePanel::draw_difference(const Surface& ui, const ViewState& state, const Block& block,
                                   const Box& box) const {
  const TimeStretch stretch = time_stretch(box, ui.theme.px(state.gutter), ui.theme.px(8));
  const analysis::StepPairs& pairs = **pairs_;
  const float y = block.y + ui.theme.px(2 * lane_height + 2 * lane_between);
  ImDrawList* draw = ImGui::GetWindowDrawList();
  Time sum_a = 0, sum_b = 0;
  float from = -1, until = -1;
  const auto flush = [&] {
    if (sum_a <= 0 || until < from) return;
    const double share = static_cast<double>(sum_b) / static_cast<double>(sum_a) - 1;
    draw->AddRectFilled({from, y}, {std::max(until, from + 1), y + ui.theme.px(difference_height)},
                        diverging(ui.theme.kind, share / full_colour));
  };
  for (const ComparedOp& op : pairs.ops) {
    if (!op.a.there() || !op.b.there() || op.a.stream != block.stream) continue;
    const auto x_of = [&](Time time) {
      const float x = state.time.x_of(pairs.begin_a + time, stretch.left, stretch.width);
      return std::clamp(std::floor(x), stretch.left, stretch.left + stretch.width);
    };
    const float x0 = x_of(op.a.begin), x1 = x_of(op.a.end);
    if (x1 <= stretch.left || x0 >= stretch.left + stretch.width) continue;
    if (x0 >= until) {
      flush();
      sum_a = sum_b = 0;
      from = x0;
    }
    sum_a += op.a.duration();
    sum_b += op.b.duration();
    until = std::max(x1, x0 + 1);
  }
  flush();
}

void ComparePanel::draw_ops(const Surface& ui, TraceModel& model, ViewState& state,
                            const Box& box) {
  const analysis::StepPairs& pairs = **pairs_;
  const TimeStretch stretch = time_stretch(box, ui.theme.px(state.gutter), ui.theme.px(8));
  const ImVec2 mouse = ImGui::GetIO().MousePos;
  ImDrawList* draw = ImGui::GetWindowDrawList();
  std::map<std::pair<std::int32_t, int>, float> drawn;  // by stream and run: up to where
  hovered_ = nullptr;
  seen_ = {};
  std::int32_t selected = -1;
  if (state.selection && state.selection->rank == rank_) {
    selected = state.selection->op;
  }
  const auto x_of = [&](Time time) {
    const float x = state.time.x_of(pairs.begin_a + time, stretch.left, stretch.width);
    return std::clamp(std::floor(x), stretch.left, stretch.left + stretch.width);
  };
  ImGui::PushFont(ui.fonts.small);
  for (const ComparedOp& op : pairs.ops) {
    const std::int32_t stream = stream_of(op);
    const auto block = std::find_if(blocks_.begin(), blocks_.end(),
                                    [&](const Block& k) { return k.stream == stream; });
    if (block == blocks_.end()) continue;
    for (const int run : {0, 1}) {
      const ComparedSpan& span = run == 0 ? op.a : op.b;
      if (!span.there()) continue;
      const storage::OpRow& row = (run == 0 ? model : *model.against()).op(span.op);
      const float y = block->y + static_cast<float>(run) * ui.theme.px(lane_height + lane_between);
      float& free = drawn.try_emplace({stream, run}, stretch.left - 1).first->second;
      const float x0 = x_of(span.begin), end = x_of(span.end);
      const float x1 = std::max(end, x0 + 1);
      if (x1 <= free || x0 >= stretch.left + stretch.width || end <= stretch.left) continue;
      const Box bar{{x0, y}, {x1 - (x1 - x0 >= 4 ? 1 : 0), y + ui.theme.px(lane_height)}};
      const Colour colour = ui.colours().of(class_of(row));
      seen_[static_cast<std::size_t>(class_of(row))] = true;
      const float ready = std::clamp(x_of(span.ready), bar.min.x, bar.max.x);
      draw->AddRectFilled(bar.min, {ready, bar.max.y}, mix(ui.theme.panel, colour, 72));
      draw->AddRectFilled({ready, bar.min.y}, bar.max, colour);
      free = x1;
      const float room = bar.max.x - ready - ui.theme.px(8);
      if (room > ui.theme.px(24)) {
        draw_text(
            ui.fonts.small,
            {ready + ui.theme.px(4), y + (ui.theme.px(lane_height) - ui.fonts.small->FontSize) / 2},
            text_on(colour), fitted_path(short_name(subject_of(row)), room));
      }
      if (bar.contains(mouse) && ImGui::IsWindowHovered()) hovered_ = &op;
      if (op.a.there() && op.a.op == selected)
        draw->AddRect(bar.min, bar.max, ui.theme.text, 0, 0, ui.theme.px(2));
    }
  }
  ImGui::PopFont();
}

void ComparePanel::handle_mouse(const Surface& ui, TraceModel& model, ViewState& state,
                                const Box& box) {
  const ImGuiIO& io = ImGui::GetIO();
  if (!box.contains(io.MousePos) || !ImGui::IsWindowHovered()) return;
  const TimeStretch stretch = time_stretch(box, ui.theme.px(state.gutter), ui.theme.px(8));
  if (io.MouseWheel != 0) {
    state.time.zoom(std::pow(1.25, io.MouseWheel), (io.MousePos.x - stretch.left) / stretch.width);
  }
  const bool mine = box.contains(io.MouseClickedPos[0]);
  if (mine && ImGui::IsMouseDragging(0, 4)) state.time.pan(-io.MouseDelta.x / stretch.width);
  if (hovered_ == nullptr) return;
  const ComparedSpan &a = hovered_->a, &b = hovered_->b;
  const storage::OpRow& op = a.there() ? model.op(a.op) : model.against()->op(b.op);
  std::string words = fmt::format("{} {}", title_of(op), short_name(subject_of(op)));
  if (a.there()) words += fmt::format("\nA {}", format_time(a.duration()));
  if (b.there()) words += fmt::format("\nB {}", format_time(b.duration()));
  if (a.there() && b.there() && a.duration() > 0) {
    const double share = static_cast<double>(b.duration()) / static_cast<double>(a.duration()) - 1;
    words +=
        fmt::format(" ({})\nbegins {} in B", signed_share(share), signed_time(b.begin - a.begin));
  } else if (!a.there() || !b.there()) {
    words += a.there() ? "\nonly in A" : "\nonly in B";
  }
  ImGui::SetTooltip("%s", words.c_str());
  const bool clicked = ImGui::IsMouseReleased(0) && io.MouseDragMaxDistanceSqr[0] < 16;
  if (clicked && a.there()) state.selection = model.find(rank_, a.op);
}

float ComparePanel::draw_blocks(Surface& ui, TraceModel& model, ViewState& state, const Box& box) {
  const Theme& theme = ui.theme;
  const float right = box.min.x + theme.px(state.gutter) - theme.px(8);
  blocks_.clear();
  float y = box.min.y + theme.px(ruler_room);
  for (const std::int32_t stream : model.lanes_of(rank_)) {
    blocks_.push_back({stream, y});
    y += block_height(ui);
  }
  const Box area{box.min, {box.max.x, y}};
  const TimeStretch stretch = time_stretch(area, theme.px(state.gutter), theme.px(8));
  // From the begin of the step, as the runs' own times differ.
  const Time begin = pairs_->ok() ? (**pairs_).begin_a : 0;
  const TimeView since(state.time.from() - begin, state.time.to() - begin, model.info().end);
  const Ruler marks = ruler(since, stretch.width, text_width(ui.fonts.small, "+00,000.00 ms"));
  ImDrawList* draw = ImGui::GetWindowDrawList();
  for (const Tick& tick : marks.ticks) {
    const float x = std::floor(state.time.x_of(begin + tick.time, stretch.left, stretch.width));
    draw->AddRectFilled({x, area.min.y + theme.px(16)}, {x + 1, y}, theme.line);
    const float half = text_width(ui.fonts.small, tick.label) / 2;
    if (x - half < right || x + half > area.max.x) continue;
    draw_text(ui.fonts.small, {x - half, area.min.y}, theme.dim, tick.label);
  }
  ImGui::PushFont(ui.fonts.small);
  const float wide = right - box.min.x - theme.px(letters_px);
  const float down = (theme.px(lane_height) - ui.fonts.small->FontSize) / 2;
  for (const Block& block : blocks_) {
    const std::string name = fitted_middle(model.stream(block.stream).name, wide);
    draw_text_right(ui.fonts.small, {right - theme.px(12), block.y + down}, theme.dim, name);
    draw_text_right(ui.fonts.small, {right, block.y + down}, theme.text, "A");
    draw_text_right(ui.fonts.small, {right, block.y + down + theme.px(lane_height + lane_between)},
                    theme.text, "B");
  }
  ImGui::PopFont();
  state.place("compare/lanes", area.min, area.max);
  if (pairs_->ok()) {
    draw_ops(ui, model, state, area);
    for (const Block& block : blocks_) draw_difference(ui, state, block, area);
    handle_mouse(ui, model, state, area);
  }
  return y;
}

// The colours of operations, and what those of differences mean.
float ComparePanel::draw_legends(const Surface& ui, const TraceModel& model, ViewState& state,
                                 const Box& box) const {
  std::vector<LegendEntry> entries;
  for (int c = 0; c < op_class_count; ++c) {
    const auto op_class = static_cast<OpClass>(c);
    if (!seen_[static_cast<std::size_t>(c)]) continue;
    entries.push_back({LegendMark::colour, ui.colours().of(op_class), model.class_name(op_class)});
  }
  state.fields["legend/compare"] = draw_legend(ui, entries, box);
  const float y = box.min.y + legend_height(ui, entries, box.width()) + ui.theme.px(4);
  const std::string words = fmt::format(
      "Below each pair of lanes: how long B takes, from blue ({:.0f} % less) over neutral to "
      "orange ({:.0f} % more); between outlines of memory: blue where B holds less, orange more",
      100 * full_colour, 100 * full_colour);
  return y + draw_wrapped(ui.fonts.small, {box.min.x, y}, ui.theme.dim, words, box.width()) +
         ui.theme.px(14);
}

void ComparePanel::draw(Surface& ui, TraceModel& model, ViewState& state, const Box& box) {
  ImGui::GetWindowDrawList()->AddRectFilled(box.min, box.max, ui.theme.panel);
  ImGui::SetCursorScreenPos(box.min);
  ImGui::BeginChild("compare", {box.width(), box.height()}, false,
                    ImGuiWindowFlags_NoScrollWithMouse * (hovered_ != nullptr ? 1 : 0));
  const float pad = std::min(ui.theme.px(14), box.width() / 8);
  const ImVec2 at = ImGui::GetCursorScreenPos();
  const float x = at.x + pad, right = at.x + box.width() - 2 * pad;
  float y = at.y + ui.theme.px(12);
  if (model.against() == nullptr) {
    const std::string words =
        "There is no other run to compare with: open both with tessera inspect A --against B, or "
        "what tessera compare A B --json wrote.";
    draw_wrapped(ui.fonts.body, {x, y}, ui.theme.dim, words, right - x);
  } else {
    find_out(model, state, ui.scripted);
    state.gutter = gutter_of(ui, model, rank_, box.width(), letters_px);
    y = draw_head(ui, model, state, {{x, y}, {right, box.max.y}});
    y = draw_blocks(ui, model, state, {{at.x, y}, {right, box.max.y}});
    if (pairs_->ok()) {
      const float end = box.max.y - below_memory_ - ui.theme.px(12);
      y = draw_compared_memory(ui, model, state, **pairs_, {{at.x, y}, {right, std::max(y, end)}});
    }
    const float memory_end = y;
    y = draw_legends(ui, model, state, {{x, y}, {right, box.max.y}});
    const bool beside = right - x > ui.theme.px(compare_width);
    const float half = beside ? x + (right - x) / 2 : right;
    const float causes =
        draw_causes(ui, state, {{x, y}, {half - (beside ? 2 * pad : 0), box.max.y}});
    const float kinds =
        draw_kinds(ui, state, {{beside ? half : x, beside ? y : causes}, {right, box.max.y}});
    y = std::max(causes, kinds);
    below_memory_ = y - memory_end;
  }
  ImGui::SetCursorScreenPos({x, y});
  ImGui::Dummy({1, 1});  // how far the window scrolls
  ImGui::EndChild();
}

}  // namespace tessera::inspector
