// SPDX-License-Identifier: Apache-2.0
#include "inspector/app/app.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "inspector/app/banner.h"
#include "inspector/app/commands.h"
#include "inspector/app/panels.h"
#include "inspector/app/top_bar.h"
#include "inspector/widgets/drawing.h"
#include "inspector/widgets/format.h"

namespace tessera::inspector {
namespace {

constexpr float top_height = 46;
constexpr float gap_px = 6;
constexpr float least_body = 40;  // of width and height: less shows nothing
constexpr float help_column = 480;

Status check_panels(const InspectOptions& options) {
  if (!options.beside.empty() && !options.below.empty()) {
    return {Code::invalid_argument, "a second panel is beside the first or below it, not both"};
  }
  const std::string& second = options.below.empty() ? options.beside : options.below;
  for (const std::string& panel : {options.panel, second}) {
    if (panel == second && panel.empty()) continue;
    if (find_panel(panel) == nullptr) {
      return {Code::invalid_argument, fmt::format("there is no panel \"{}\": give {}", panel,
                                                  fmt::join(panel_names(), ", "))};
    }
    if (panel == "compare" && options.against.empty()) {
      return {Code::invalid_argument,
              "the panel \"compare\" needs another run: give its trace with --against"};
    }
  }
  if (second != options.panel) return {};
  return {Code::invalid_argument,
          fmt::format("the panel \"{}\" is the first one: give another as the second", second)};
}

}  // namespace

Result<std::unique_ptr<App>> App::open(const InspectOptions& options, const Layout& layout) {
  TESSERA_ASSIGN(auto model, TraceModel::open(options.path));
  if (options.time && options.time->second <= options.time->first) {
    return Status(Code::invalid_argument,
                  fmt::format("the time range {} to {} ns is empty: give begin < end",
                              options.time->first, options.time->second));
  }
  if (options.time &&
      (options.time->first < 0 || options.time->second > std::max<Time>(model->info().end, 10))) {
    return Status(Code::invalid_argument,
                  fmt::format("the time range {:.3f} to {:.3f} ms is not within the run: {} goes "
                              "from 0 to {:.3f} ms",
                              static_cast<double>(options.time->first) / 1e6,
                              static_cast<double>(options.time->second) / 1e6, options.path,
                              static_cast<double>(model->info().end) / 1e6));
  }
  TESSERA_TRY(check_panels(options));
  if (options.rank && !model->recorded(*options.rank)) {
    return Status(Code::invalid_argument,
                  fmt::format("rank {} has no spans in {}: {}", *options.rank, options.path,
                              model->run().recorded_ranks.empty()
                                  ? "no rank was recorded"
                                  : fmt::format("recorded are {} ranks from {} to {}",
                                                model->run().recorded_ranks.size(),
                                                model->run().recorded_ranks.front(),
                                                model->run().recorded_ranks.back())));
  }
  if (!options.against.empty()) {
    TESSERA_ASSIGN(auto other, TraceModel::open(options.against));
    model->set_against(std::move(other));
  }
  return std::unique_ptr<App>(new App(std::move(model), options, layout));
}

App::App(std::unique_ptr<TraceModel> model, const InspectOptions& options, const Layout& layout)
    : model_(std::move(model)),
      state_{.time = TimeView(0, 1, model_->info().end)},
      live_(model_->path(), model_->info().unfinished) {
  state_.rank = options.rank ? *options.rank : model_->slowest_recorded();
  state_.step = std::max(0, model_->last_step());
  state_.sql = options.query;
  state_.notes = Notes(model_->path());
  state_.layout = layout;
  if (!options.beside.empty() || !options.below.empty()) {
    state_.layout.below = !options.below.empty();
    state_.layout.second = state_.layout.below ? options.below : options.beside;
    state_.layout.split = true;
  }
  const PanelRow& wanted = *find_panel(options.panel);
  const Problem* failure = options.time ? nullptr : first_failure(options.rank);
  if (failure != nullptr) show_problem(*model_, state_, Problem(*failure));
  if (options.time) state_.time.show(options.time->first, options.time->second);
  if (failure == nullptr && !options.time) {
    // What two runs have in common, and what modules do, is looked for in a whole step.
    const bool whole = options.panel == "compare" || options.panel == "model";
    const auto step = model_->step_range(model_->last_step());
    const auto [begin, end] = live_.goes_on() ? std::pair(step.first, model_->info().end)
                              : whole         ? step
                                              : first_view();
    state_.time.show(begin, end);
  }
  const bool no_spans = model_->run().recorded_ranks.empty();
  state_.panel = wanted.needs_spans && no_spans ? panel_rows().front().name : wanted.name;
  if (!no_spans && failure == nullptr && !live_.goes_on()) select_a_prefetch();
  follow(live_.goes_on() && failure == nullptr && !options.time);
}

// A run that failed opens where it did, unless another rank is asked for.
const Problem* App::first_failure(std::optional<Rank> rank) const {
  for (const Problem& problem : model_->problems()) {
    if (problem.time && (!rank || problem.rank == -1 || problem.rank == *rank)) return &problem;
  }
  return nullptr;
}

// The turn from forward to backward of the last step: few enough bars to read their labels, and
// where memory peaks. Without backward passes the whole step.
std::pair<Time, Time> App::first_view() {
  constexpr std::size_t before = 3, after = 18;  // bars of compute
  const auto step = model_->step_range(model_->last_step());
  for (const LaneData& lane : model_->around(state_.rank, model_->last_step()).lanes) {
    if (model_->stream(lane.spans.stream).role != StreamRole::compute) continue;
    const SpanPyramid& spans = *lane.pyramid;
    for (std::size_t i = spans.first_ending_after(step.first); i < spans.size(); ++i) {
      const storage::OpRow& op = model_->op(lane.spans.op[i]);
      // Ranks drift: the step before may still be under way here.
      if (op.step != model_->last_step() || op.phase != Phase::backward) continue;
      return {spans.begin(i - std::min(i, before)),
              spans.end(std::min(i + after, spans.size() - 1))};
    }
  }
  return step;
}

// Something to look at from the start: a prefetched all_gather in the middle of the range.
void App::select_a_prefetch() {
  const Time middle = state_.time.from() + (state_.time.to() - state_.time.from()) / 2;
  for (const LaneData& lane : model_->around(state_.rank, model_->step_at(middle)).lanes) {
    for (std::size_t i = lane.pyramid->first_ending_after(middle); i < lane.pyramid->size(); ++i) {
      const storage::OpRow& op = model_->op(lane.spans.op[i]);
      if (op.reason != Reason::backward_prefetch || op.kind != OpKind::all_gather) continue;
      if (lane.spans.begin[i] < state_.time.to()) {
        state_.selection = SpanRef{state_.rank, lane.spans.stream, op.id};
      }
      return;
    }
  }
}

Panel& App::panel(const std::string& name) {
  std::unique_ptr<Panel>& panel = panels_[name];
  if (panel == nullptr) panel = find_panel(name)->make();
  return *panel;
}

void App::draw_body(Surface& ui, const Box& body) {
  const SecondPanel::Places places = second_.places(ui, state_, body);
  shows_both_ = places.both;
  const std::string first = state_.panel, second = state_.layout.second;
  panel(first).draw(ui, *model_, state_, places.first);
  if (!places.both) return;
  panel(second).draw(ui, *model_, state_, places.second);
  second_.draw_head(ui, state_, body, places);
}

void App::draw_help(const Surface& ui) {
  if (!state_.show_help) return;
  const ImVec2 screen = ImGui::GetIO().DisplaySize;
  ImGui::SetNextWindowPos({screen.x / 2, screen.y / 2}, ImGuiCond_Always, {0.5F, 0.5F});
  ImGui::PushStyleVar(ImGuiStyleVar_WindowBorderSize, 1);  // it lies on panels of its colour
  ImGui::Begin("Keys", &state_.show_help,
               ImGuiWindowFlags_NoResize | ImGuiWindowFlags_AlwaysAutoResize |
                   ImGuiWindowFlags_NoCollapse | ImGuiWindowFlags_NoMove);
  std::vector<std::pair<std::string, const char*>> lines;
  for (const Command& command : commands()) lines.emplace_back(keys_text(command), command.title);
  for (const PanelRow& row : panel_rows()) {
    if (row.key != 0) lines.emplace_back(std::string(1, row.key), row.tab);
  }
  for (const MouseHabit& habit : mouse_habits()) lines.emplace_back(habit.gesture, habit.meaning);
  // As many columns as the height asks for and the width has room for.
  const float tall = ImGui::GetTextLineHeightWithSpacing();
  const auto fit = std::max<std::size_t>(1, static_cast<std::size_t>(0.8F * screen.y / tall));
  const auto room =
      std::max<std::size_t>(1, static_cast<std::size_t>(screen.x / ui.theme.px(help_column)));
  const std::size_t columns = std::min(room, (lines.size() + fit - 1) / fit);
  const std::size_t rows = (lines.size() + columns - 1) / columns;
  for (std::size_t k = 0; k < lines.size(); ++k) {
    if (k % rows == 0 && k > 0) ImGui::SameLine(0, ui.theme.px(32));
    if (k % rows == 0) ImGui::BeginGroup();
    ImGui::PushFont(ui.fonts.strong);
    ImGui::TextUnformatted(lines[k].first.c_str());
    ImGui::PopFont();
    ImGui::SameLine(ui.theme.px(110));
    ImGui::TextUnformatted(lines[k].second);
    if (k % rows == rows - 1 || k + 1 == lines.size()) ImGui::EndGroup();
  }
  ImGui::End();
  ImGui::PopStyleVar();
}

bool App::draw(Surface& ui) {
  const std::string panel_before = state_.panel;
  look_for_more(ui);
  model_->begin_frame();
  model_->set_patient(ui.scripted);
  model_->look_at(state_.time.from(), state_.time.to());
  model_->take_check();
  state_.busy = false;
  state_.hovered.reset();
  state_.cursor_before = std::exchange(state_.cursor, std::nullopt);
  state_.cursor_share.reset();
  const ImVec2 screen = ImGui::GetIO().DisplaySize;
  ImGui::SetNextWindowPos({0, 0});
  ImGui::SetNextWindowSize(screen);
  ImGui::PushStyleVar(ImGuiStyleVar_WindowPadding, ImVec2(0, 0));
  ImGui::PushStyleColor(ImGuiCol_WindowBg, ui.theme.ground);
  ImGui::Begin("inspector", nullptr,
               ImGuiWindowFlags_NoDecoration | ImGuiWindowFlags_NoMove |
                   ImGuiWindowFlags_NoSavedSettings | ImGuiWindowFlags_NoBringToFrontOnFocus |
                   ImGuiWindowFlags_NoScrollWithMouse);
  ImGui::PopStyleVar();
  const float top = ui.theme.px(top_height);
  const float gap = ui.theme.px(gap_px);
  draw_top_bar(ui, *model_, state_, {{0, 0}, {screen.x, top}}, shows_both_,
               [&](float right, float y) { return draw_live(ui, right, y); });
  const float banner = banner_height(ui, *model_);
  draw_banner(ui, *model_, state_, {{gap, top}, {screen.x - gap, top + banner}});
  const float head = banner > 0 ? top + banner + gap : top;
  const Box body{{gap, head}, {screen.x - gap, screen.y - gap}};
  const float least = ui.theme.px(least_body);
  if (body.width() >= least && body.height() >= least) draw_body(ui, body);
  ImGui::End();
  ImGui::PopStyleColor();
  draw_help(ui);
  // Keys first: what opens the finder is not its first letter.
  const bool moving = handle_keys(ui);
  finder_.draw(*this, ui);
  if (ImGui::IsMouseClicked(3)) history_.back(state_);
  if (ImGui::IsMouseClicked(4)) history_.forward(state_);
  if (shows_both_) SecondPanel::settle(state_, panel_before);
  history_.note(state_);
  take_along_.draw(ui, state_);
  return moving || state_.busy || model_->at_work();
}

}  // namespace tessera::inspector
