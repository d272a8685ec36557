// SPDX-License-Identifier: Apache-2.0
#include "inspector/details/details_panel.h"

#include <fmt/format.h>

#include <algorithm>

#include "inspector/widgets/drawing.h"
#include "inspector/widgets/format.h"
#include "inspector/widgets/op_text.h"
#include "inspector/widgets/rank_grid.h"
#include "inspector/widgets/run_fields.h"

namespace tessera::inspector {
namespace {

constexpr float part_pad = 12;
constexpr float fade_px = 28;
constexpr float small_cell = 24;    // px of a rank in the grid that stays below
constexpr float least_facts = 290;  // px of what is said above it

std::string words(std::string_view name) {
  std::string text(name);
  std::replace(text.begin(), text.end(), '_', ' ');
  return text;
}

std::string with_share(Time part, Time whole) {
  if (whole <= 0) return format_time(part);
  return fmt::format("{}  ({:.0f} %)", format_time(part),
                     100 * static_cast<double>(part) / static_cast<double>(whole));
}

void subtitle(const Surface& ui, const std::string& text) {
  ImGui::PushStyleColor(ImGuiCol_Text, ui.theme.dim);
  ImGui::TextWrapped("%s", text.c_str());
  ImGui::PopStyleColor();
  ImGui::Dummy({0, ui.theme.px(6)});
}

void rule(const Surface& ui) {
  ImGui::Dummy({0, ui.theme.px(2)});
  const ImVec2 at = ImGui::GetCursorScreenPos();
  ImGui::GetWindowDrawList()->AddRectFilled(at, {at.x + ImGui::GetContentRegionAvail().x, at.y + 1},
                                            ui.theme.line);
  ImGui::Dummy({0, ui.theme.px(5)});
}

// A row that is cut fades out, so that it says that there is more.
void fade_out(const Surface& ui, const Box& box) {
  if (ImGui::GetScrollMaxY() - ImGui::GetScrollY() < 1) return;
  const Colour none = with_alpha(ui.theme.panel, 0);
  ImGui::GetWindowDrawList()->AddRectFilledMultiColor({box.min.x, box.max.y - ui.theme.px(fade_px)},
                                                      box.max, none, none, ui.theme.panel,
                                                      ui.theme.panel);
}

void collective_fields(const Surface& ui, TraceModel& model, ViewState& state,
                       const storage::OpRow& op, const analysis::SpanFacts& facts) {
  const auto show = [&](const char* name, const std::string& value) {
    field(ui, state, "span", name, value);
  };
  show("Bytes", format_bytes(op.bytes) + " " + words(name_of(op.dtype)));
  if (const auto* communicator = model.communicator(op)) {
    show("Group", fmt::format("{} of {} ranks", communicator->name, communicator->group_size));
  }
  show("Bus bandwidth", format_rate(facts.bus_bandwidth));
  if (!op.algorithm.empty()) show("Algorithm", op.algorithm);
  if (facts.kernel > 0) {
    show("Kernel on the device",
         format_time(facts.kernel) + ", " + format_rate(facts.kernel_bus_bandwidth));
  }
  rule(ui);
  show("Wait for last rank", with_share(facts.wait, facts.duration));
  show("Transfer", with_share(facts.transfer, facts.duration));
  show("Exposed", with_share(facts.exposed, facts.duration));
}

// The ops whose events it waited for; each one can be jumped to.
void waited_for(Surface& ui, TraceModel& model, ViewState& state, const SpanRef& span,
                std::int32_t op) {
  const auto ids = model.waited_for(op);
  if (ids.empty()) return;
  rule(ui);
  heading(ui, "Waited for");
  for (std::size_t k = 0; k < std::min<std::size_t>(ids.size(), 4); ++k) {
    const storage::OpRow& other = model.op(ids[k]);
    ImGui::PushID(static_cast<int>(k));
    ImGui::PushStyleColor(ImGuiCol_Text, ui.theme.accent);
    const std::string label = title_of(other) + "  " + short_name(subject_of(other));
    if (ImGui::Selectable(label.c_str())) {
      if (const auto found = model.find(span.rank, other.id)) state.selection = found;
    }
    ImGui::PopStyleColor();
    ImGui::PopID();
  }
}

void draw_span(Surface& ui, TraceModel& model, ViewState& state, const SpanRef& span) {
  const storage::OpRow& op = model.op(span.op);
  const analysis::SpanFacts facts = model.facts(span);
  const auto show = [&](const char* name, const std::string& value) {
    field(ui, state, "span", name, value);
  };
  ImGui::PushFont(ui.fonts.title);
  ImGui::TextUnformatted(words(title_of(op)).c_str());
  ImGui::PopFont();
  ImGui::TextUnformatted(subject_of(op).c_str());
  const std::string name = foreign_name(model.run(), op);
  if (!name.empty()) ImGui::TextWrapped("%s", name.c_str());
  subtitle(ui, fmt::format("rank {}, step {}, {}{}", span.rank, op.step, name_of(op.phase),
                           op.reason == Reason::none ? "" : ", " + words(name_of(op.reason))));
  show("Start", format_moment(facts.begin, 100'000));
  show("Duration", format_time(facts.duration));
  if (facts.collective) {
    collective_fields(ui, model, state, op, facts);
    const auto use = analysis::prefetch_use(model, model.around(span.rank, op.step).compute, op);
    if (use) show("Prefetched", format_many(use->units, "unit") + " early");
  } else {
    if (facts.flops_per_s > 0) {
      show("Work", format_flops(op.flops));
      const double peak = model.run().peak_flops_per_rank;
      show(
          "Rate",
          fmt::format("{}/s{}", format_flops(facts.flops_per_s),
                      peak > 0 ? fmt::format("  ({:.0f} %)", 100 * facts.flops_per_s / peak) : ""));
    }
    if (op.bytes > Bytes{0}) show("Bytes moved", format_bytes(op.bytes));
  }
  waited_for(ui, model, state, span, op.id);
}

// What the banner above all panels says is not said again.
void draw_diagnostics(const Surface& ui, const TraceModel& model) {
  const std::string banner = model.problems().empty() ? "" : model.problems().front().text;
  for (const auto& diagnostic : model.diagnostics()) {
    if (diagnostic.message == banner) continue;
    if (diagnostic.severity == TraceDiagnostic::Severity::info) {
      ImGui::TextWrapped("%s", diagnostic.message.c_str());
      continue;
    }
    ImGui::PushStyleColor(ImGuiCol_Text, ui.colours().fail);
    ImGui::TextWrapped("⚠ %s", diagnostic.message.c_str());
    ImGui::PopStyleColor();
  }
}

// A part of the panel with its own scroll bar.
template <class Draw>
void draw_part(const Surface& ui, const char* name, const Box& box, Draw draw) {
  ImGui::SetCursorScreenPos(box.min);
  ImGui::PushStyleColor(ImGuiCol_ChildBg, ui.theme.panel);
  ImGui::PushStyleVar(ImGuiStyleVar_WindowPadding, ImVec2(ui.theme.px(16), ui.theme.px(part_pad)));
  ImGui::BeginChild(name, {box.width(), std::max(box.height(), 1.0F)}, false,
                    ImGuiWindowFlags_AlwaysUseWindowPadding);
  draw();
  fade_out(ui, box);
  ImGui::EndChild();
  ImGui::PopStyleVar();
  ImGui::PopStyleColor();
}

}  // namespace

void draw_details(Surface& ui, TraceModel& model, ViewState& state, const Box& box) {
  state.place("details", box.min, box.max);
  const Time middle = state.time.from() + (state.time.to() - state.time.from()) / 2;
  const float inside = box.width() - 2 * ui.theme.px(16);
  const auto all_ranks = [&](float most_cell) {
    return draw_rank_grid(ui, model, state, analysis::Metric::compute, model.step_at(middle),
                          ImGui::GetContentRegionAvail().x, most_cell);
  };
  // The ranks stay in view below, whatever is said above, unless that leaves it no room.
  const float grid = rank_grid_height(ui, model, inside, small_cell) + 2 * ui.theme.px(part_pad);
  const bool apart = model.rank_count() > 1 && box.height() - grid > ui.theme.px(least_facts);
  const float split = apart ? box.max.y - grid : box.max.y;
  draw_part(ui, "details", {box.min, {box.max.x, split}}, [&] {
    if (state.selection) {
      draw_span(ui, model, state, *state.selection);
      rule(ui);
    }
    draw_run_fields(ui, model, state, state.selection ? RunFields::brief : RunFields::all);
    draw_diagnostics(ui, model);
    if (apart || model.rank_count() < 2) return;
    rule(ui);
    const std::string odd = all_ranks(rank_cell_px);
    if (!odd.empty()) subtitle(ui, odd);
  });
  if (!apart) return;
  draw_part(ui, "ranks", {{box.min.x, split}, box.max}, [&] { all_ranks(small_cell); });
  ImGui::GetWindowDrawList()->AddRectFilled({box.min.x + ui.theme.px(16), split},
                                            {box.max.x - ui.theme.px(16), split + 1},
                                            ui.theme.line);
}

}  // namespace tessera::inspector
