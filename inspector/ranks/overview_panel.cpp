// SPDX-License-Identifier: Apache-2.0
#include "inspector/ranks/overview_panel.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "inspector/ranks/heat_cells.h"
#include "inspector/ranks/step_spread.h"
#include "inspector/widgets/drawing.h"
#include "inspector/widgets/format.h"
#include "inspector/widgets/rank_grid.h"
#include "inspector/widgets/run_fields.h"

namespace tessera::inspector {

using analysis::Metric;

namespace {

constexpr float side_width = 400;
constexpr float spread_height = 190;
constexpr float axis_width = 72;
constexpr float highest_row = 44;
constexpr std::size_t findings_shown = 4;

}  // namespace

// Returns where the buttons end, below.
float OverviewPanel::draw_metrics(Surface& ui, const TraceModel& model, ViewState& state,
                                  const Box& box) {
  const float left = box.min.x + ui.theme.px(10), gap = ui.theme.px(4);
  const float tall = ImGui::GetFrameHeight();
  ImVec2 at{left, box.min.y + ui.theme.px(10)};
  for (int m = 0; m < analysis::metric_count; ++m) {
    const auto metric = static_cast<Metric>(m);
    if (!has_metric(model, metric)) continue;
    const float wide =
        ImGui::CalcTextSize(name_of(metric)).x + 2 * ImGui::GetStyle().FramePadding.x;
    if (at.x > left && at.x + wide > box.max.x) at = {left, at.y + tall + gap};
    ImGui::SetCursorScreenPos(at);
    if (tab_button(ui, state, name_of(metric), fmt::format("metric/{}", m),
                   metric == state.metric)) {
      state.metric = metric;
    }
    at.x += wide + gap;
  }
  return at.y + tall + ui.theme.px(10);
}

void OverviewPanel::draw_map_axes(Surface& ui, const TraceModel& model, const Box& map) {
  const std::int64_t ranks = model.rank_count(), steps = model.step_count();
  const float tall = ui.fonts.small->FontSize;
  const std::int64_t every_rank =
      every_nth(static_cast<double>(map.height()) / static_cast<double>(ranks), 3 * tall);
  for (std::int64_t rank = 0; rank < ranks; rank += every_rank) {
    const float y = map.min.y + map.height() * static_cast<float>(rank) / static_cast<float>(ranks);
    const float row = map.height() / static_cast<float>(ranks);
    const float middle = row > tall ? (row - tall) / 2 : -tall / 2;
    draw_text_right(ui.fonts.small, {map.min.x - ui.theme.px(8), y + middle}, ui.theme.dim,
                    fmt::format("{}", rank));
  }
  const double cell = static_cast<double>(map.width()) / static_cast<double>(steps);
  const float widest = text_width(ui.fonts.small, fmt::format("step {}", steps));
  const std::int64_t every_step = every_nth(cell, widest + ui.theme.px(16));
  for (std::int64_t step = 0; step < steps; step += every_step) {
    const std::string label = fmt::format("step {}", step);
    const float wide = text_width(ui.fonts.small, label);
    const float x0 = map.min.x + static_cast<float>(cell * static_cast<double>(step));
    const float inset = every_step == 1 ? (static_cast<float>(cell) - wide) / 2 : 0;
    if (x0 + inset + wide > map.max.x) continue;
    draw_text(ui.fonts.small, {x0 + inset, map.max.y + ui.theme.px(5)}, ui.theme.dim, label);
  }
}

// Few cells: the numbers themselves.
void OverviewPanel::draw_cells_text(const Surface& ui, const TraceModel& model, const Box& map) {
  const int ranks = model.rank_count(), steps = model.step_count();
  const float cell_w = map.width() / static_cast<float>(steps);
  const float cell_h = map.height() / static_cast<float>(ranks);
  if (cell_h < ui.fonts.small->FontSize + 2 || cell_w < ui.theme.px(70)) return;
  for (int step = 0; step < steps; ++step) {
    for (int rank = 0; rank < ranks; ++rank) {
      if (!figures_->table.known(step, rank)) continue;
      const std::int64_t value = figures_->table.at(step, rank);
      const std::string label = format_metric(figures_->table.metric(), value);
      const float x = map.min.x + (static_cast<float>(step) + 0.5F) * cell_w;
      const float y = map.min.y + (static_cast<float>(rank) + 0.5F) * cell_h;
      draw_text(ui.fonts.small,
                {x - text_width(ui.fonts.small, label) / 2, y - ui.fonts.small->FontSize / 2},
                text_on(sequential(figures_->scale.at(value))), label);
    }
  }
}

// Beside the rows of ranks that stand out: of 16,384 ranks one is less than a pixel high.
void OverviewPanel::draw_odd_marks(const Surface& ui, TraceModel& model, const Box& map) {
  constexpr std::size_t most = 64;
  const auto* const found = model.metrics().outliers(figures_->table.metric());
  if (found == nullptr) return;
  const float size = ui.theme.px(4), x = map.max.x + ui.theme.px(3);
  for (std::size_t k = 0; k < std::min(most, found->size()); ++k) {
    const analysis::Outlier& odd = (*found)[k];
    const float middle = static_cast<float>(odd.first_rank + odd.last_rank + 1) / 2;
    const float y = map.min.y + map.height() * middle / static_cast<float>(model.rank_count());
    ImGui::GetWindowDrawList()->AddTriangleFilled({x, y}, {x + 2 * size, y - size},
                                                  {x + 2 * size, y + size}, ui.colours().warn);
  }
}

void OverviewPanel::hover_map(TraceModel& model, ViewState& state, const Box& map) {
  const ImVec2 mouse = ImGui::GetIO().MousePos;
  if (!map.contains(mouse) || !ImGui::IsWindowHovered()) return;
  const int ranks = model.rank_count(), steps = model.step_count();
  const int step = std::min(
      steps - 1, static_cast<int>((mouse.x - map.min.x) / map.width() * static_cast<float>(steps)));
  const int rank = std::min(ranks - 1, static_cast<int>((mouse.y - map.min.y) / map.height() *
                                                        static_cast<float>(ranks)));
  state.step = step;  // the grid beside shows it
  const Metric metric = figures_->table.metric();
  const std::string value = figures_->table.known(step, rank)
                                ? format_metric(metric, figures_->table.at(step, rank))
                                : "is not known";
  ImGui::SetTooltip("rank %d, node %d, step %d\n%s %s%s", rank,
                    rank / std::max(1, model.run().ranks_per_node), step, name_of(metric),
                    value.c_str(),
                    model.recorded(rank) ? "\nclick to open in the timeline"
                                         : "\nno spans were recorded for this rank");
  if (!ImGui::IsMouseClicked(0) || !model.recorded(rank)) return;
  state.open_rank(rank);
  state.step = step;
  const auto [begin, end] = model.step_range(step);
  state.time.show(begin, end);
}

bool OverviewPanel::renew(const TraceModel&) {
  map_width_ = 0;  // the texture is kept, what it shows is not
  classes_.forget();
  return true;
}

void OverviewPanel::draw_heat_map(Surface& ui, TraceModel& model, ViewState& state,
                                  const Box& box) {
  const Theme& theme = ui.theme;
  const Box map{{box.min.x + theme.px(axis_width), box.min.y},
                {box.max.x - theme.px(16), box.max.y - theme.px(26)}};
  if (map.width() < theme.px(40) || map.height() < theme.px(16)) return;  // no room
  const int width = std::clamp(static_cast<int>(map.width()), 1, 4096);
  const int height = std::clamp(static_cast<int>(map.height()), 1, 4096);
  if (width != map_width_ || height != map_height_ || figures_->table.metric() != map_metric_) {
    const auto cells = heat_cells(*figures_, height, width);
    Texture texture{width, height, std::vector<std::uint32_t>(cells.size()), Sampling::nearest};
    std::transform(cells.begin(), cells.end(), texture.pixels.begin(),
                   [](double place) { return place < 0 ? 0 : sequential(place); });
    if (map_texture_ == nullptr) {
      map_texture_ = ui.textures.create(std::move(texture));
    } else {
      ui.textures.update(map_texture_, std::move(texture));
    }
    map_metric_ = figures_->table.metric();
    map_width_ = width;
    map_height_ = height;
  }
  state.place("overview/map", map.min, map.max);
  ImDrawList* draw = ImGui::GetWindowDrawList();
  const ImVec2 low{std::floor(map.min.x), std::floor(map.min.y)};
  draw->AddImage(map_texture_, low,
                 {low.x + static_cast<float>(width), low.y + static_cast<float>(height)});
  const int steps = model.step_count();
  for (int step = 1; step < steps && steps <= 40; ++step) {  // cells of steps stay apart
    const float x =
        std::floor(low.x + map.width() * static_cast<float>(step) / static_cast<float>(steps));
    draw->AddRectFilled({x, low.y}, {x + 2, map.max.y}, theme.panel);
  }
  draw_map_axes(ui, model, map);
  draw_cells_text(ui, model, map);
  draw_odd_marks(ui, model, map);
  hover_map(model, state, map);
}

// Parts of a step as a time, as their median may be next to nothing; all else as a share.
std::string OverviewPanel::excess_text(const analysis::Outlier& o) const {
  if (figures_->table.unit <= 0) return fmt::format("{:+.1f} %", 100 * o.excess);
  return (o.difference < 0 ? "−" : "+") + format_time(std::abs(o.difference));
}

// What is wrong with the run, by title; all that is known of it is a panel of its own.
void OverviewPanel::draw_findings(Surface& ui, TraceModel& model, ViewState& state) {
  heading(ui, "Findings");
  const auto* const found = model.findings();
  if (found == nullptr) {
    ImGui::TextDisabled("Looking at all ranks and steps …");
    return;
  }
  if (!found->ok()) {
    ImGui::PushStyleColor(ImGuiCol_Text, ui.colours().fail);
    ImGui::TextWrapped("⚠ %s", found->status().message().c_str());
    ImGui::PopStyleColor();
    return;
  }
  if ((*found)->empty()) {
    ImGui::TextDisabled("✓ Nothing that costs much");
    return;
  }
  for (std::size_t k = 0; k < std::min(findings_shown, (*found)->size()); ++k) {
    const analysis::Finding& finding = (**found)[k];
    ImGui::PushID(static_cast<int>(k));
    const ImVec2 at = ImGui::GetCursorScreenPos();
    const float width = std::max(ImGui::GetContentRegionAvail().x, 1.0F);
    const WrappedText text(ui.fonts.body, "⚠ " + finding.title, width);
    if (ImGui::Selectable("##finding", false, 0, {0, text.height()})) state.panel = "findings";
    state.place(fmt::format("overview/finding/{}", k), ImGui::GetItemRectMin(),
                ImGui::GetItemRectMax());
    text.draw(at, ui.theme.text);
    state.fields[fmt::format("overview/finding/{}", k)] = finding.title;
    ImGui::PopID();
  }
  const std::size_t more = (*found)->size() - std::min(findings_shown, (*found)->size());
  if (more > 0) ImGui::TextDisabled("and %zu more", more);
}

void OverviewPanel::draw_outliers(Surface& ui, TraceModel& model, ViewState& state) {
  const auto* const found = model.metrics().outliers(figures_->table.metric());
  heading(ui, fmt::format("Ranks that stand out: {}", name_of(figures_->table.metric())));
  if (found == nullptr) {
    ImGui::TextDisabled("Looking at all ranks and steps …");
    return;
  }
  const std::vector<analysis::Outlier>& odd = *found;
  if (odd.empty()) {
    ImGui::PushStyleColor(ImGuiCol_Text, ui.theme.dim);
    ImGui::TextWrapped(
        "None: no rank is 1 %% off the median of its steps, and further than chance explains.");
    ImGui::PopStyleColor();
  }
  for (std::size_t k = 0; k < std::min<std::size_t>(odd.size(), 8); ++k) {
    const analysis::Outlier& o = odd[k];
    const std::string ranks = o.first_rank == o.last_rank
                                  ? fmt::format("rank {}", o.first_rank)
                                  : fmt::format("ranks {}-{}", o.first_rank, o.last_rank);
    const std::int32_t length = o.last_step - o.first_step + 1;
    const std::string steps =
        length == 1 ? fmt::format("step {}", o.first_step)
                    : fmt::format("{} of steps {}-{}", o.count, o.first_step, o.last_step);
    ImGui::PushID(static_cast<int>(k));
    const ImVec2 at = ImGui::GetCursorScreenPos();
    const float width = ImGui::GetContentRegionAvail().x;
    if (ImGui::Selectable("##open", false) && model.recorded(o.first_rank)) {
      state.open_rank(o.first_rank);
    }
    draw_text(ui.fonts.body, at, ui.theme.text, ranks);
    draw_text(ui.fonts.body, {at.x + width * 0.42F, at.y}, ui.theme.dim, steps);
    draw_text_right(ui.fonts.body, {at.x + width, at.y}, ui.theme.text, excess_text(o));
    state.fields[fmt::format("overview/{}", k)] =
        fmt::format("{}, {}, {}", ranks, steps, excess_text(o));
    ImGui::PopID();
  }
  if (odd.size() > 8) {
    ImGui::TextDisabled("and %zu more", odd.size() - 8);
  }
}

void OverviewPanel::draw_side(Surface& ui, TraceModel& model, ViewState& state, const Box& box) {
  ImGui::SetCursorScreenPos(box.min);
  ImGui::PushStyleColor(ImGuiCol_ChildBg, ui.theme.panel);
  ImGui::PushStyleVar(ImGuiStyleVar_WindowPadding, ImVec2(ui.theme.px(16), ui.theme.px(12)));
  ImGui::BeginChild("overview-side", {box.width(), box.height()}, false,
                    ImGuiWindowFlags_AlwaysUseWindowPadding);
  draw_run_fields(ui, model, state, RunFields::brief);
  ImGui::Dummy({0, ui.theme.px(12)});
  draw_findings(ui, model, state);
  ImGui::Dummy({0, ui.theme.px(12)});
  if (model.rank_count() > 1) {  // one alone stands out from nobody
    draw_outliers(ui, model, state);
    ImGui::Dummy({0, ui.theme.px(12)});
    classes_.draw(ui, model, state);
  }
  const float width = ImGui::GetContentRegionAvail().x;
  draw_rank_grid(ui, model, state, figures_->table.metric(), state.step, width);
  if (model.rank_count() < 2) {
    draw_scale(ui, state, figures_->table.metric(), figures_->scale, width);
  }
  ImGui::EndChild();
  ImGui::PopStyleVar();
  ImGui::PopStyleColor();
}

// Tables of very many ranks and steps take a moment.
void OverviewPanel::draw_waiting(const Surface& ui, const TraceModel& model, const Box& box) {
  const std::string words =
      model.at_work() ? fmt::format("Reading {} of {} …", format_many(model.step_count(), "step"),
                                    format_many(model.rank_count(), "rank"))
                      : "The steps of ranks cannot be read.";
  draw_text(ui.fonts.body, {box.min.x + ui.theme.px(16), box.min.y + ui.theme.px(16)}, ui.theme.dim,
            fitted(words, box.width() - ui.theme.px(32)));
}

void OverviewPanel::draw(Surface& ui, TraceModel& model, ViewState& state, const Box& box) {
  if (model.step_count() == 0) {
    draw_text(ui.fonts.body, {box.min.x + ui.theme.px(16), box.min.y + ui.theme.px(16)},
              ui.theme.dim, "This trace has no step summaries.");
    return;
  }
  if (!state.metric) state.metric = model.metrics().telling();
  figures_ = model.metrics().figures(state.metric.value_or(Metric::step_time));
  if (figures_ == nullptr) {
    draw_waiting(ui, model, box);
    return;
  }
  const Metric metric = figures_->table.metric();
  state.fields["overview/metric"] =
      fmt::format("{}: {} to {}", name_of(metric), format_metric(metric, figures_->scale.low()),
                  format_metric(metric, figures_->scale.high()));
  const float gap = ui.theme.px(6);
  // The map comes first where there is little room.
  const float wanted = ui.theme.px(side_width);
  const float side = box.max.x - (box.width() > 2 * wanted ? wanted : 0);
  const Box left{box.min, {side - gap, box.max.y}};
  ImDrawList* draw = ImGui::GetWindowDrawList();
  draw->PushClipRect(box.min, box.max, true);
  draw->AddRectFilled(left.min, left.max, ui.theme.panel);
  const float top = draw_metrics(ui, model, state, left);
  // Rows of few ranks need not be higher than their text wants; the spread takes the rest.
  const float rows = ui.theme.px(highest_row) * static_cast<float>(model.rank_count());
  // Where there is room for one of both it is the map's.
  const float wanted_spread = std::min(ui.theme.px(spread_height), 0.35F * box.height());
  const float spread = wanted_spread < least_step_spread(ui.theme) ? 0 : wanted_spread;
  const float split =
      spread == 0 ? box.max.y + gap : std::min(box.max.y - spread, top + rows + ui.theme.px(26));
  draw_heat_map(ui, model, state, {{left.min.x, top}, {left.max.x, split - gap}});
  draw->AddRectFilled({left.min.x, split - gap}, {left.max.x, split}, ui.theme.ground);
  if (spread > 0)
    draw_step_spread(ui, *figures_, ui.theme.px(axis_width), {{left.min.x, split}, left.max});
  draw->PopClipRect();
  if (side < box.max.x) draw_side(ui, model, state, {{side, box.min.y}, box.max});
}

}  // namespace tessera::inspector
