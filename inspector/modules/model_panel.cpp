// SPDX-License-Identifier: Apache-2.0
#include "inspector/modules/model_panel.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "inspector/timeline/time_header.h"
#include "inspector/widgets/drawing.h"
#include "inspector/widgets/format.h"
#include "inspector/widgets/legend.h"
#include "inspector/widgets/op_text.h"

namespace tessera::inspector {
namespace {

constexpr float names_width = 210;   // px
constexpr float least_strips = 260;  // columns are left out before strips are narrower
constexpr float indent = 16;

/// A column of numbers at the moment, or of the step. Those of a higher rank are left out first.
struct NodeColumn {
  const char* title;
  float width;
  int dispensable;
  std::string (*text)(const ModuleRow&);
};

std::string memory_text(Bytes bytes) { return bytes > Bytes{} ? format_memory(bytes) : ""; }
std::string time_text(Time time) { return time > 0 ? format_time(time) : ""; }
std::string held_text(const ModuleRow& row, Holding holding) {
  return memory_text(of(row.held, holding));
}

constexpr NodeColumn node_columns[] = {
    {"state", 84, 1, [](const ModuleRow& r) { return std::string(r.state); }},
    {"shards", 78, 3, [](const ModuleRow& r) { return held_text(r, Holding::shards); }},
    {"gathered", 78, 2, [](const ModuleRow& r) { return held_text(r, Holding::gathered); }},
    {"gradients", 78, 3, [](const ModuleRow& r) { return held_text(r, Holding::gradients); }},
    {"optimizer", 78, 5, [](const ModuleRow& r) { return held_text(r, Holding::optimizer); }},
    {"activations", 84, 1, [](const ModuleRow& r) { return held_text(r, Holding::activations); }},
    {"other", 78, 6, [](const ModuleRow& r) { return held_text(r, Holding::other); }},
    {"compute", 72, 1, [](const ModuleRow& r) { return time_text(r.times.compute); }},
    {"collectives", 80, 4, [](const ModuleRow& r) { return time_text(r.times.communication); }},
};

std::vector<const NodeColumn*> columns_in(const Surface& ui, float room) {
  std::vector<const NodeColumn*> shown;
  for (int most = 6; most >= 0; --most) {  // of rank 0 there are none
    shown.clear();
    float sum = 0;
    for (const NodeColumn& column : node_columns) {
      if (column.dispensable > most) continue;
      shown.push_back(&column);
      sum += ui.theme.px(column.width);
    }
    if (sum <= room) break;
  }
  return shown;
}

// What a module is about to do with its parameters, if nothing works for it.
const char* memory_state(const HeldBytes& held) {
  if (of(held, Holding::gathered) > Bytes{}) return "gathered";
  return of(held, Holding::shards) > Bytes{} ? "sharded" : "";
}

const char* state_of(const storage::OpRow& op) {
  switch (op.kind) {
    case OpKind::all_gather:
    case OpKind::broadcast: return "gathering";
    case OpKind::reduce_scatter:
    case OpKind::all_reduce:
    case OpKind::reduce: return "reducing";
    case OpKind::compute: return op.phase == Phase::backward ? "backward" : "forward";
    default: return nullptr;
  }
}

}  // namespace

/// Where the parts of the panel are.
struct ModelPanel::Places {
  Box rows;
  float names;  // width
  TimeStretch strips;
  std::vector<const NodeColumn*> columns;
};

void ModelPanel::find_out(TraceModel& model, const ViewState& state) {
  if (tree_ == nullptr) {
    tree_ = std::make_unique<ModuleTree>(model);
    open_.assign(static_cast<std::size_t>(tree_->size()), false);
    open_[0] = true;
    for (int node = 1; node < tree_->size(); ++node) {
      open_[static_cast<std::size_t>(node)] = opened_.contains(tree_->node(node).path);
    }
  }
  if (rank_ != state.rank) {
    rank_ = state.rank;
    step_ = -1;
    memory_serial_ = 0;
    pinned_.reset();
  }
  pyramid_ = model.memory(rank_).pyramid.get();
}

// Who holds what at the moment: of a long run the samples of its step say it.
void ModelPanel::find_memory(TraceModel& model, Time moment) {
  const RankMemory& shown = model.memory(rank_);
  const RankMemory& memory =
      shown.by_steps ? model.memory_around(rank_, model.step_at(moment)) : shown;
  if (memory.serial == memory_serial_) return;
  memory_serial_ = memory.serial;
  memory_.reset();
  memory_reach_ = memory.reach;
  if (memory.pyramid == nullptr) return;
  memory_ = std::make_unique<ModuleMemory>(*tree_, memory.samples, model.buffers());
}

bool ModelPanel::renew(const TraceModel&) {
  opened_.clear();
  for (int node = 0; tree_ != nullptr && node < tree_->size(); ++node) {
    if (open_[static_cast<std::size_t>(node)]) opened_.insert(tree_->node(node).path);
  }
  tree_.reset();
  memory_.reset();
  pyramid_ = nullptr;
  rank_ = -1;
  return true;
}

// Of the opened rank in a step.
void ModelPanel::find_times(TraceModel& model, std::int32_t step) {
  if (step == step_) return;
  step_ = step;
  times_.assign(static_cast<std::size_t>(tree_->size()), {});
  const auto [begin, end] = model.step_range(step);
  for (const LaneData& lane : model.around(rank_, step).lanes) {
    const StreamRole role = model.stream(lane.spans.stream).role;
    const auto& spans = lane.spans;
    for (std::size_t i = lane.pyramid->first_ending_after(begin); i < spans.op.size(); ++i) {
      if (spans.begin[i] >= end) break;
      const storage::OpRow& op = model.op(spans.op[i]);
      if (op.step != step) continue;
      NodeTimes& times = times_[static_cast<std::size_t>(tree_->of(op))];
      const Time took = spans.end[i] - spans.begin[i];
      if (role == StreamRole::compute) times.compute += took;
      if (role == StreamRole::communication) times.communication += took;
    }
  }
  for (int node = tree_->size() - 1; node > 0; --node) {
    NodeTimes& above = times_[static_cast<std::size_t>(tree_->node(node).parent)];
    above.compute += times_[static_cast<std::size_t>(node)].compute;
    above.communication += times_[static_cast<std::size_t>(node)].communication;
  }
}

// What runs at the moment says more than what is held.
void ModelPanel::find_states(TraceModel& model, Time moment) {
  states_.assign(static_cast<std::size_t>(tree_->size()), nullptr);
  for (const LaneData& lane : model.around(rank_, model.step_at(moment)).lanes) {
    const std::size_t i = lane.pyramid->first_ending_after(moment);
    if (i >= lane.spans.op.size() || lane.spans.begin[i] > moment) continue;
    const storage::OpRow& op = model.op(lane.spans.op[i]);
    const char* state = state_of(op);
    if (state == nullptr) continue;
    for (int node = tree_->of(op); node >= 0; node = tree_->node(node).parent) {
      const char*& known = states_[static_cast<std::size_t>(node)];
      if (known == nullptr || op.kind == OpKind::compute) known = state;
    }
  }
  held_ = memory_ != nullptr ? memory_->at(*tree_, moment)
                             : std::vector<HeldBytes>(static_cast<std::size_t>(tree_->size()));
}

Time ModelPanel::moment_of(const ViewState& state) const {
  if (state.cursor) return *state.cursor;
  if (pinned_) return *pinned_;
  const std::ptrdiff_t peak =
      pyramid_ == nullptr ? -1 : pyramid_->highest(state.time.from(), state.time.to());
  // Before the view, what was in force at its begin.
  if (peak >= 0) return std::max(pyramid_->time(peak), state.time.from());
  return state.time.from() + (state.time.to() - state.time.from()) / 2;
}

std::vector<int> ModelPanel::shown_nodes() const {
  std::vector<int> shown;
  for (int node = 0; node < tree_->size();) {
    shown.push_back(node);
    node = open_[static_cast<std::size_t>(node)] ? node + 1 : tree_->end(node);
  }
  return shown;
}

float ModelPanel::draw_head(Surface& ui, TraceModel& model, ViewState& state, const Box& box,
                            Time moment) {
  const char* which = state.cursor ? "under the mouse" : pinned_ ? "chosen" : "the highest in view";
  std::string words =
      fmt::format("Modules of rank {} at {}, {}", rank_,
                  format_moment(moment, state.time.to() - state.time.from()), which);
  if (pyramid_ != nullptr && pyramid_->at(moment) >= 0) {
    words +=
        fmt::format(": {} allocated", format_memory(pyramid_->allocated(pyramid_->at(moment))));
  }
  if (model.crowded()) words += "; strips show single operations: zoom in for them";
  state.fields["model"] = words;
  const float head = draw_wrapped(ui.fonts.title, box.min, ui.theme.text, words, box.width());
  const float y = box.min.y + head + ui.theme.px(6);
  ImGui::SetCursorScreenPos({box.min.x, y});
  if (tab_button(ui, state, "Show in the timeline", "model/timeline", false)) {
    const auto [begin, end] = model.step_range(model.step_at(moment));
    const Time around = std::max<Time>((end - begin) / 8, 1000);
    state.panel = "all";
    state.time.show(moment - around, moment + around);
  }
  ImGui::SameLine(0, ui.theme.px(4));
  if (tab_button(ui, state, "Open all", "model/open", false)) {
    std::fill(open_.begin(), open_.end(), true);
  }
  ImGui::SameLine(0, ui.theme.px(4));
  if (tab_button(ui, state, "Units only", "model/units", false)) {
    std::fill(open_.begin(), open_.end(), false);
    open_[0] = true;
  }
  const float buttons = ImGui::GetItemRectMax().x + ui.theme.px(16);
  const std::vector<LegendEntry> colours = seen_colours(ui, model);
  const float beside = legend_height(ui, colours, std::max(box.max.x - buttons, 1.0F));
  // Beside the buttons if a line is enough.
  const float frame = ImGui::GetFrameHeight();
  const bool below = beside > frame;
  const float tall = below ? legend_height(ui, colours, box.width()) + ui.theme.px(4) : 0;
  const ImVec2 at = below ? ImVec2(box.min.x, y + frame + ui.theme.px(4))
                          : ImVec2(buttons, y + ImGui::GetStyle().FramePadding.y);
  state.fields["legend/model"] = draw_legend(ui, colours, {at, box.max});
  return y + frame + tall + ui.theme.px(8);
}

// The colours that the last frame showed.
std::vector<LegendEntry> ModelPanel::seen_colours(const Surface& ui,
                                                  const TraceModel& model) const {
  std::vector<LegendEntry> entries;
  const auto add = [&](Colour colour, const std::string& words) {
    entries.push_back({LegendMark::colour, colour, words});
  };
  for (int c = 0; c < op_class_count; ++c) {
    const auto op_class = static_cast<OpClass>(c);
    if (strips_.seen(op_class)) add(ui.colours().of(op_class), model.class_name(op_class));
  }
  if (strips_.seen_gathered()) {
    add(ui.colours().of(MemoryClass::unsharded_parameters), "parameters gathered");
  }
  return entries;
}

void ModelPanel::draw_row(const Surface& ui, ViewState& state, const Places& places, int node,
                          float top) {
  const Theme& theme = ui.theme;
  const ModuleNode& module = tree_->node(node);
  const auto at = static_cast<std::size_t>(node);
  const Box name{{places.rows.min.x, top}, {places.rows.min.x + places.names, top + theme.row_px}};
  const bool leaf = module.end == node + 1;
  const bool hovered = name.contains(ImGui::GetIO().MousePos) && ImGui::IsWindowHovered();
  if (hovered && !leaf) {
    ImGui::GetWindowDrawList()->AddRectFilled(name.min, name.max, theme.hover, theme.px(4));
    if (ImGui::IsMouseClicked(0)) open_[at] = !open_[at];
  }
  const float base = top + (theme.row_px - ui.fonts.body->FontSize) / 2;
  const float x = name.min.x + theme.px(6) + static_cast<float>(module.depth) * theme.px(indent);
  if (!leaf) {
    draw_text(ui.fonts.small, {x, base + theme.px(2)}, theme.dim, open_[at] ? "▼" : "▶");
  }
  ImFont* const font = module.unit ? ui.fonts.strong : ui.fonts.body;
  const std::string words = node == 0 ? "model" : short_name(module.name);
  ImGui::PushFont(font);
  const float room = std::max(name.max.x - x - theme.px(18), 1.0F);
  std::string shown = fitted_path(words, room);
  if (shown.empty()) shown = fitted(words, room);
  ImGui::PopFont();
  draw_text(font, {x + theme.px(16), base}, theme.text, shown);
  const char* runs = states_[at];
  const ModuleRow row{held_[at], times_[at], runs != nullptr ? runs : memory_state(held_[at])};
  float right = places.rows.max.x - ImGui::GetStyle().ScrollbarSize;
  std::string all = words;
  for (auto it = places.columns.rbegin(); it != places.columns.rend(); ++it) {
    const std::string text = (*it)->text(row);
    draw_text_right(ui.fonts.small, {right - theme.px(6), base + theme.px(2)}, theme.text, text);
    right -= theme.px((*it)->width);
  }
  for (const NodeColumn& column : node_columns) {
    const std::string text = column.text(row);
    if (!text.empty()) all += fmt::format(", {} {}", column.title, text);
  }
  state.place("model/" + (node == 0 ? words : module.path), name.min, name.max);
  state.fields["model/" + (node == 0 ? words : module.path)] = all;
}

void ModelPanel::draw_rows(Surface& ui, TraceModel& model, ViewState& state, const Places& places) {
  const float line = ui.theme.row_px;
  ImGui::SetCursorScreenPos(places.rows.min);
  ImGui::BeginChild("modules", {places.rows.width(), places.rows.height()}, false,
                    ImGuiWindowFlags_NoScrollWithMouse);
  const std::vector<int> nodes = shown_nodes();
  const ImVec2 origin = ImGui::GetCursorScreenPos();
  std::vector<int> strip_of(static_cast<std::size_t>(tree_->size()), -1);
  std::vector<float> tops;
  for (std::size_t k = 0; k < nodes.size(); ++k) {
    const float top = origin.y + static_cast<float>(k) * line;
    if (top + line < places.rows.min.y || top > places.rows.max.y) continue;
    strip_of[static_cast<std::size_t>(nodes[k])] = static_cast<int>(tops.size());
    tops.push_back(top);
  }
  // Of a long run who holds what is known of the steps around the moment.
  const bool told =
      memory_reach_.first <= state.time.from() && state.time.to() <= memory_reach_.second;
  strips_.draw(ui, model, state, *tree_, told ? memory_.get() : nullptr, strip_of, tops, line,
               places.strips);
  for (const int node : nodes) {
    const int strip = strip_of[static_cast<std::size_t>(node)];
    if (strip >= 0) draw_row(ui, state, places, node, tops[static_cast<std::size_t>(strip)]);
  }
  const ImGuiIO& io = ImGui::GetIO();
  const bool over_strips = io.MousePos.x >= places.strips.left &&
                           io.MousePos.x < places.strips.left + places.strips.width;
  if (ImGui::IsWindowHovered() && io.MouseWheel != 0 && (!over_strips || io.KeyShift)) {
    ImGui::SetScrollY(ImGui::GetScrollY() - io.MouseWheel * 3 * line);
  }
  ImGui::SetCursorScreenPos({origin.x, origin.y + static_cast<float>(nodes.size()) * line});
  ImGui::Dummy({1, 1});  // how far the window scrolls
  ImGui::EndChild();
}

void ModelPanel::use_mouse(TraceModel& model, ViewState& state, const Places& places) {
  const ImGuiIO& io = ImGui::GetIO();
  const TimeStretch& strips = places.strips;
  // A press makes ImGui's own window the active one.
  constexpr ImGuiHoveredFlags hovered =
      ImGuiHoveredFlags_ChildWindows | ImGuiHoveredFlags_AllowWhenBlockedByActiveItem;
  const Box box{{strips.left, places.rows.min.y}, {strips.left + strips.width, places.rows.max.y}};
  if (box.contains(io.MouseClickedPos[0]) && ImGui::IsMouseDragging(0, 4)) {
    state.time.pan(-io.MouseDelta.x / strips.width);
  }
  if (!box.contains(io.MousePos) || !ImGui::IsWindowHovered(hovered)) return;
  state.point_at(io.MousePos.x, strips.left, strips.width);
  if (state.cursor && (*state.cursor < 0 || *state.cursor > model.info().end)) state.cursor.reset();
  if (io.MouseWheel != 0 && !io.KeyShift) {
    state.time.zoom(std::pow(1.25, io.MouseWheel), (io.MousePos.x - strips.left) / strips.width);
  }
  if (ImGui::IsMouseReleased(0) && io.MouseDragMaxDistanceSqr[0] < 16) pinned_ = state.cursor;
}

void ModelPanel::draw(Surface& ui, TraceModel& model, ViewState& state, const Box& box) {
  const Theme& theme = ui.theme;
  ImGui::GetWindowDrawList()->AddRectFilled(box.min, box.max, theme.panel);
  find_out(model, state);
  const float pad = std::min(theme.px(14), box.width() / 16);
  const float left = box.min.x + pad, right = box.max.x - pad;
  Places places;
  places.names = std::min(theme.px(names_width), (right - left) / 3);
  const float room = right - left - places.names;
  places.columns = columns_in(ui, std::min(room - theme.px(least_strips), room / 2));
  float numbers = theme.px(12) + ImGui::GetStyle().ScrollbarSize;
  for (const NodeColumn* column : places.columns) numbers += theme.px(column->width);
  if (places.columns.empty()) numbers = 0;
  places.strips = {left + places.names, std::max(1.0F, room - numbers)};
  places.rows = {{left, 0}, {right, box.max.y - pad / 2}};
  // The mouse is where the rows were.
  places.rows.min.y = box.min.y + theme.px(60) + time_header_height(ui);
  use_mouse(model, state, places);
  const Time moment = moment_of(state);
  find_memory(model, moment);
  find_times(model, model.step_at(moment));
  find_states(model, moment);
  const float y =
      draw_head(ui, model, state, {{left, box.min.y + theme.px(12)}, {right, box.max.y}}, moment);
  const float head = y + time_header_height(ui);
  if (box.max.y - head < theme.row_px) return;
  const Box axis{{places.strips.left - theme.px(state.gutter), y},
                 {places.strips.left + places.strips.width + theme.px(8), box.max.y - pad / 2}};
  draw_time_header(ui, model, state, axis);
  float at = right - ImGui::GetStyle().ScrollbarSize;
  for (auto it = places.columns.rbegin(); it != places.columns.rend(); ++it) {
    draw_text_right(ui.fonts.small, {at - theme.px(6), head - ui.fonts.small->FontSize - 5},
                    theme.dim, (*it)->title);
    at -= theme.px((*it)->width);
  }
  places.rows.min.y = head;
  draw_time_grid(ui, model, state, {{axis.min.x, head}, axis.max});
  draw_rows(ui, model, state, places);
  const float x = std::floor(state.time.x_of(moment, places.strips.left, places.strips.width));
  if (x >= places.strips.left && x < places.strips.left + places.strips.width) {
    ImGui::GetWindowDrawList()->AddRectFilled({x, head}, {x + 1, axis.max.y},
                                              with_alpha(theme.accent, 200));
  }
}

}  // namespace tessera::inspector
