// SPDX-License-Identifier: Apache-2.0
#include "inspector/findings/findings_panel.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "inspector/widgets/drawing.h"
#include "inspector/widgets/format.h"

namespace tessera::inspector {
namespace {

constexpr float card_width = 860;
constexpr float searches_width = 420;  // of what was not found, beside the cards

struct Search {
  analysis::FindingKind kind;
  const char* what;
};
constexpr Search searches[] = {
    {analysis::FindingKind::failure, "errors that the run reported"},
    {analysis::FindingKind::slow_rank, "ranks that compute longer than others"},
    {analysis::FindingKind::slow_link, "ranks that communicate longer than others"},
    {analysis::FindingKind::late_gather, "units that are gathered too late"},
    {analysis::FindingKind::unbalanced_memory, "ranks with more memory than others"},
    {analysis::FindingKind::memory_growth, "memory that grows from step to step"},
    {analysis::FindingKind::fragmentation, "memory that is reserved but cannot be used"},
    {analysis::FindingKind::exposed, "steps that are mostly collectives, while nothing computes"},
    {analysis::FindingKind::idle, "steps that are mostly the host's, copies and files"},
};

// What the finding costs, in the unit of what it is about.
std::string cost_text(const analysis::Finding& finding) {
  using analysis::FindingKind;
  switch (finding.kind) {
    case FindingKind::failure: return "error";
    case FindingKind::slow_rank:
    case FindingKind::slow_link:
    case FindingKind::late_gather:
    case FindingKind::exposed:
    case FindingKind::idle: return format_percent(finding.cost) + " of step";
    default: return "memory";
  }
}

// What only follows from the options is no fault.
Colour mark_of(const Surface& ui, analysis::FindingKind kind) {
  using analysis::FindingKind;
  if (kind == FindingKind::failure) return ui.colours().fail;
  const bool choice = kind == FindingKind::exposed || kind == FindingKind::idle;
  return choice ? ui.theme.dim : ui.colours().warn;
}

void open_finding(TraceModel& model, ViewState& state, const analysis::Finding& finding) {
  if (model.recorded(finding.rank)) {
    state.open_rank(finding.rank);
  } else {
    state.panel = "overview";
    if (finding.kind == analysis::FindingKind::slow_rank) state.metric = analysis::Metric::compute;
    if (finding.kind == analysis::FindingKind::slow_link) state.metric = analysis::Metric::transfer;
    if (finding.kind == analysis::FindingKind::exposed) state.metric = analysis::Metric::exposed;
    if (finding.kind == analysis::FindingKind::idle) state.metric = analysis::Metric::other;
    if (finding.kind == analysis::FindingKind::unbalanced_memory) {
      state.metric = analysis::Metric::peak_memory;
    }
  }
  if (finding.step >= 0) {
    state.step = finding.step;
    const auto [begin, end] = model.step_range(finding.step);
    state.time.show(begin, end);
  }
  if (finding.op < 0 || !model.recorded(finding.rank)) return;
  state.selection = model.find(finding.rank, finding.op);
  if (!finding.time || !state.selection) return;
  const Time around = std::max<Time>(4 * model.facts(*state.selection).duration, 1000);
  state.time.show(*finding.time - around, *finding.time + around);
}

}  // namespace

float FindingsPanel::draw_card(const Surface& ui, TraceModel& model, ViewState& state,
                               const analysis::Finding& finding, const Box& box,
                               std::size_t number) {
  const Theme& theme = ui.theme;
  const float pad = theme.px(14), line = theme.px(6);
  const std::string cost = cost_text(finding);
  const float right = box.max.x - pad;
  const float wide = right - box.min.x - pad;
  // The cost stands beside the title, or behind it where there is little room.
  const float beside = wide - text_width(ui.fonts.strong, cost) - pad;
  const bool roomy = beside > wide / 2;
  const float title_wide = roomy ? beside : wide;
  const std::string words = roomy ? finding.title : finding.title + " (" + cost + ")";
  const WrappedText title(ui.fonts.strong, words, title_wide);
  const WrappedText evidence(ui.fonts.body, finding.evidence, wide);
  const WrappedText advice(ui.fonts.body, finding.advice, wide);
  const float height = 2 * (pad + line) + title.height() + evidence.height() + advice.height();
  const Box card{box.min, {box.max.x, box.min.y + height}};
  const bool hovered = card.contains(ImGui::GetIO().MousePos) && ImGui::IsWindowHovered();
  ImDrawList* draw = ImGui::GetWindowDrawList();
  draw->AddRectFilled(card.min, card.max, hovered ? theme.raised : theme.panel, theme.px(4));
  const Colour mark = mark_of(ui, finding.kind);
  draw->AddRectFilled(card.min, {card.min.x + theme.px(4), card.max.y}, mark, theme.px(2));
  const float x = card.min.x + pad;
  float y = card.min.y + pad;
  title.draw({x, y}, theme.text);
  if (roomy) draw_text_right(ui.fonts.strong, {right, y}, theme.dim, cost);
  y += title.height() + line;
  evidence.draw({x, y}, theme.text);
  y += evidence.height() + line;
  advice.draw({x, y}, theme.dim);
  state.place(fmt::format("finding/{}", number), card.min, card.max);
  state.fields[fmt::format("finding/{}", number)] = finding.title;
  if (hovered && ImGui::IsMouseClicked(0)) open_finding(model, state, finding);
  return height;
}

// What was looked for and not found, on a card; returns where it ends, below.
float FindingsPanel::draw_searches(const Surface& ui,
                                   const std::vector<analysis::Finding>& findings, const Box& box) {
  const float pad = ui.theme.px(14), line = ui.theme.px(8);
  const float wide = box.width() - 2 * pad;
  std::vector<WrappedText> lines;
  for (const Search& search : searches) {
    const bool found = std::any_of(findings.begin(), findings.end(), [&](const auto& finding) {
      return finding.kind == search.kind;
    });
    if (!found) lines.emplace_back(ui.fonts.body, std::string("✓ ") + search.what, wide);
  }
  if (lines.empty()) return box.min.y;
  const WrappedText head(ui.fonts.strong, "Looked for, and not found", wide);
  float height = 2 * pad + head.height();
  for (const WrappedText& text : lines) height += line + text.height();
  const ImVec2 high{box.max.x, box.min.y + height};
  ImGui::GetWindowDrawList()->AddRectFilled(box.min, high, ui.theme.panel, ui.theme.px(4));
  ImVec2 at{box.min.x + pad, box.min.y + pad};
  head.draw(at, ui.theme.text);
  at.y += head.height() + line;
  for (const WrappedText& text : lines) {
    text.draw(at, ui.theme.dim);
    at.y += text.height() + line;
  }
  return high.y;
}

void FindingsPanel::draw(Surface& ui, TraceModel& model, ViewState& state, const Box& box) {
  ImGui::SetCursorScreenPos(box.min);
  ImGui::BeginChild("findings", {box.width(), box.height()}, false);
  const float pad = ui.theme.px(10), gap = ui.theme.px(8);
  const ImVec2 at = ImGui::GetCursorScreenPos();
  const float wide = std::min(ui.theme.px(card_width), box.width() - 2 * pad);
  const Result<std::vector<analysis::Finding>>* const found = model.findings();
  float y = at.y + pad;
  const float x = at.x + pad;
  const auto say = [&](ImFont* font, Colour colour, const std::string& words) {
    y += draw_wrapped(font, {x, y}, colour, words, wide) + gap;
  };
  if (found == nullptr) {
    say(ui.fonts.body, ui.theme.dim, "Looking at all ranks and steps …");
  } else if (!found->ok()) {
    say(ui.fonts.body, ui.colours().fail, "⚠ " + found->status().message());
  } else {
    const std::vector<analysis::Finding>& findings = **found;
    state.fields["findings"] = std::to_string(findings.size());
    say(ui.fonts.title, ui.theme.text,
        findings.empty() ? "✓ Nothing that costs much"
                         : format_many(std::ssize(findings), "finding"));
    const float top = y;
    for (std::size_t k = 0; k < findings.size(); ++k) {
      const Box place{{x, y}, {x + wide, y}};
      y += draw_card(ui, model, state, findings[k], place, k) + gap;
    }
    const float beside = x + wide + gap, list = ui.theme.px(searches_width);
    const bool roomy = !findings.empty() && beside + list + pad <= box.max.x;
    const Box place = roomy ? Box{{beside, top}, {beside + list, top}} : Box{{x, y}, {x + wide, y}};
    y = std::max(y, draw_searches(ui, findings, place)) + pad;
  }
  ImGui::SetCursorScreenPos({x, y});
  ImGui::Dummy({1, 1});  // how far the window scrolls
  ImGui::EndChild();
}

}  // namespace tessera::inspector
