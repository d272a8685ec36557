// SPDX-License-Identifier: Apache-2.0
#include "inspector/app/finder.h"

#include <GLFW/glfw3.h>
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>

#include "inspector/app/app.h"
#include "inspector/app/commands.h"
#include "inspector/app/panels.h"
#include "inspector/model/search.h"
#include "inspector/widgets/drawing.h"

namespace tessera::inspector {
namespace {

constexpr std::size_t shown_max = 12;
constexpr float finder_width = 520;

std::string lower(std::string text) {
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

// Every word of the query occurs, in any order.
bool fits(const std::string& query, const std::string& words) {
  const std::string in = lower(words);
  for (std::size_t at = 0; at < query.size();) {
    const std::size_t end = std::min(query.find(' ', at), query.size());
    if (in.find(query.substr(at, end - at)) == std::string::npos) return false;
    at = end + 1;
  }
  return true;
}

/// The last number in the query, -1 without one.
std::int32_t number_in(const std::string& query) {
  const std::size_t at = query.find_last_not_of("0123456789") + 1;
  std::int32_t number = -1;
  std::from_chars(query.data() + at, query.data() + query.size(), number);
  return number;
}

// The first op of the unit on the opened rank from the begin of the view on, or of all; of a long
// run of the steps around it, as every step has it.
void show_unit(App& app, const std::string& unit) {
  TraceModel& model = app.model();
  std::optional<SpanRef> first, next;
  Time first_begin = 0, next_begin = 0;
  const std::int32_t step = model.step_at(app.state().time.from());
  for (const LaneData& lane : model.around(app.state().rank, step).lanes) {
    for (std::size_t i = 0; i < lane.spans.op.size(); ++i) {
      if (model.op(lane.spans.op[i]).unit != unit) continue;
      const Time begin = lane.spans.begin[i];
      const SpanRef span{app.state().rank, lane.spans.stream, lane.spans.op[i]};
      if (!first || begin < first_begin) {
        first = span;
        first_begin = begin;
      }
      if (begin < app.state().time.from()) continue;
      if (!next || begin < next_begin) {
        next = span;
        next_begin = begin;
      }
    }
  }
  if (!next) next = first;
  if (!next) return;
  app.state().selection = next;
  app.state().open_rank(app.state().rank);
  app.bring_into_view(*next);
}

}  // namespace

std::vector<Finder::Entry> Finder::matches(App& app) const {
  const std::string query = lower(text_.data());
  const std::int32_t number = number_in(query);
  std::vector<Entry> out;
  const auto add = [&](std::string words, std::string keys, auto run) {
    if (out.size() < shown_max && fits(query, words)) {
      out.push_back({std::move(words), std::move(keys), run});
    }
  };
  if (number >= 0 && app.model().recorded(number)) {
    add(fmt::format("rank {}", number), "",
        [number](App& a, Surface&) { a.state().open_rank(number); });
  }
  if (number >= 0 && number <= app.model().last_step()) {
    add(fmt::format("step {}", number), "", [number](App& a, Surface&) { a.show_step(number); });
  }
  for (const PanelRow& row : panel_rows()) {
    const std::string key = row.key == 0 ? "" : std::string(1, row.key);
    add(fmt::format("show {}", row.name), key,
        [name = row.name](App& a, Surface&) { a.state().panel = name; });
  }
  for (const Command& command : commands()) {
    if (command.run != nullptr) add(command.title, keys_text(command), command.run);
  }
  for (const storage::UnitRow& unit : app.model().info().units) {
    if (out.size() >= shown_max) break;
    add("unit " + unit.name, "", [name = unit.name](App& a, Surface&) { show_unit(a, name); });
  }
  if (out.size() < shown_max && query.size() > 1 && !app.model().run().recorded_ranks.empty()) {
    const auto& ops = app.model().typical_ops();
    if (std::any_of(ops.begin(), ops.end(), [&](const auto& op) { return fits_op(query, op); })) {
      out.push_back({fmt::format("operations \"{}\"", query), "N", [query](App& a, Surface&) {
                       a.state().search = query;
                       a.state().open_rank(a.state().rank);
                       a.step_match(1);
                     }});
    }
  }
  return out;
}

void Finder::move_choice(const Surface& ui, std::size_t count) {
  for (const KeyPress& press : ui.presses) {
    if (press.key == GLFW_KEY_DOWN) ++chosen_;
    if (press.key == GLFW_KEY_UP && chosen_ > 0) --chosen_;
  }
  chosen_ = count == 0 ? 0 : std::min(chosen_, count - 1);
}

void Finder::draw(App& app, Surface& ui) {
  if (!app.state().show_palette) {
    open_ = false;
    return;
  }
  const ImVec2 screen = ImGui::GetIO().DisplaySize;
  const float width = std::min(ui.theme.px(finder_width), screen.x - ui.theme.px(16));
  ImGui::SetNextWindowPos({(screen.x - width) / 2, ui.theme.px(56)});
  ImGui::SetNextWindowSize({width, 0});
  ImGui::Begin("finder", nullptr,
               ImGuiWindowFlags_NoDecoration | ImGuiWindowFlags_NoMove |
                   ImGuiWindowFlags_NoSavedSettings | ImGuiWindowFlags_AlwaysAutoResize);
  if (!open_) {
    text_.fill(0);
    chosen_ = 0;
    ImGui::SetKeyboardFocusHere();
  }
  open_ = true;
  ImGui::SetNextItemWidth(-1);
  const bool entered =
      ImGui::InputTextWithHint("##query", "command, rank 21, step 4, unit ...", text_.data(),
                               text_.size(), ImGuiInputTextFlags_EnterReturnsTrue);
  const std::vector<Entry> found = matches(app);
  move_choice(ui, found.size());
  std::optional<std::size_t> done;
  if (entered && !found.empty()) done = chosen_;
  for (std::size_t k = 0; k < found.size(); ++k) {
    const ImVec2 at = ImGui::GetCursorScreenPos();
    const float right = at.x + ImGui::GetContentRegionAvail().x;
    if (ImGui::Selectable(found[k].words.c_str(), k == chosen_)) done = k;
    app.state().place(fmt::format("finder/{}", k), ImGui::GetItemRectMin(),
                      ImGui::GetItemRectMax());
    draw_text_right(ui.fonts.body, {right, at.y}, ui.theme.dim, found[k].keys);
  }
  app.state().fields["finder"] = found.empty() ? "" : found[chosen_].words;
  if (found.empty()) ImGui::TextDisabled("nothing of that name");
  ImGui::End();
  if (!done) return;
  app.state().show_palette = false;
  found[*done].run(app, ui);
}

}  // namespace tessera::inspector
