// SPDX-License-Identifier: Apache-2.0
#include "inspector/console/console_panel.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "inspector/console/row_place.h"
#include "inspector/widgets/drawing.h"
#include "inspector/widgets/format.h"
#include "query/text.h"

namespace tessera::inspector {
namespace {

constexpr float list_width = 360;  // px of the questions, more where there is room for the longest
constexpr float list_share = 0.33F;  // of the panel, at most
constexpr float list_beside = 900;   // of the panel from which on they stand beside the answer
constexpr float editor_lines = 7;    // of SQL
constexpr float cell_width = 420;    // px; longer texts are cut
constexpr std::size_t text_max = 64 << 10, history_max = 20;
constexpr float history_rows = 4;  // in sight
constexpr int columns_max = 60;    // ImGui has tables of up to 64
constexpr const char* first_question = "What share of each step is exposed communication?";

// One line of what may have many.
std::string line_of(std::string text) {
  std::replace_if(
      text.begin(), text.end(), [](char c) { return c == '\n' || c == '\r' || c == '\t'; }, ' ');
  return text;
}

bool is_number(const query::Value& value) {
  return std::holds_alternative<std::int64_t>(value) || std::holds_alternative<double>(value);
}

// A row of a list: true if it was clicked.
bool list_row(const Surface& ui, ViewState& state, const std::string& name, ImFont* font,
              Colour colour, const std::string& words) {
  const ImVec2 at = ImGui::GetCursorScreenPos();
  const float width = ImGui::GetContentRegionAvail().x, height = ui.theme.row_px;
  ImGui::PushID(name.c_str());
  const bool clicked = ImGui::InvisibleButton("row", {std::max(width, 1.0F), height});
  const bool hovered = ImGui::IsItemHovered();
  ImGui::PopID();
  if (hovered) {
    ImGui::GetWindowDrawList()->AddRectFilled(at, {at.x + width, at.y + height}, ui.theme.hover,
                                              ui.theme.px(4));
  }
  ImGui::PushFont(font);
  const float room = width - ui.theme.px(16);
  const std::string shown = fitted(words, std::max(room, 1.0F));
  draw_text(font, {at.x + ui.theme.px(8), at.y + (height - font->FontSize) / 2}, colour, shown);
  ImGui::PopFont();
  if (hovered && shown != words) ImGui::SetTooltip("%s", words.c_str());
  state.place(name, at, {at.x + width, at.y + height});
  return clicked;
}

float width_of_list(const Surface& ui, float panel) {
  float longest = 0;
  for (const Question& question : questions()) {
    longest = std::max(longest, text_width(ui.fonts.body, question.title) + ui.theme.px(18));
  }
  return std::max(ui.theme.px(list_width), std::min(longest, list_share * panel));
}

}  // namespace

void ConsolePanel::begin(const TraceModel& model, const ViewState& state) {
  job_ = std::make_unique<QueryJob>(model.path());
  std::string sql = state.sql;
  for (const Question& question : questions()) {
    if (sql.empty() && question.title == first_question) {
      sql = asked_of(question, state.rank, state.step);
    }
  }
  ask(std::move(sql));
}

bool ConsolePanel::renew(const TraceModel& model) {
  if (job_ != nullptr) job_->renew(model.path());
  return true;
}

void ConsolePanel::ask(std::string sql) {
  sql.resize(std::min(sql.size(), text_max - 1));
  text_.assign(sql.begin(), sql.end());
  text_.resize(text_max);
  std::erase(history_, sql);
  history_.insert(history_.begin(), sql);
  if (history_.size() > history_max) history_.pop_back();
  questions_ = false;
  refusal_.clear();
  job_->ask(std::move(sql));
}

// Pictures without a window wait, so that each shows the same.
void ConsolePanel::take_answer(const Surface& ui, ViewState& state) {
  std::optional<Answer> answer = ui.scripted ? job_->await() : job_->take();
  state.busy |= job_->running();
  if (!answer) return;
  answer_ = std::move(*answer);
  state.answered = answer_.status;
  ++answers_;
  leads_ = !answer_.rows.empty() && place_of(answer_.names, answer_.rows.front()).any();
}

void ConsolePanel::draw_questions(Surface& ui, const TraceModel& model, ViewState& state,
                                  const Box& box) {
  // What was asked has a place of its own below, so that it is in sight.
  const float shown = std::min(static_cast<float>(history_.size()), history_rows);
  const float below =
      std::min((shown + 1) * ui.theme.row_px + ui.theme.px(14), std::floor(box.height() * 0.4F));
  std::string asked;
  ImGui::SetCursorScreenPos(box.min);
  ImGui::BeginChild("questions", {box.width(), box.height() - below}, false);
  const Time middle = state.time.from() + (state.time.to() - state.time.from()) / 2;
  const std::int32_t step = model.step_at(middle);
  heading(ui, "Questions");
  draw_wrapped(ui.fonts.small, ImGui::GetCursorScreenPos(), ui.theme.dim,
               fmt::format("about rank {} and step {}, which are open", state.rank, step),
               box.width());
  ImGui::Dummy({1, ui.fonts.small->FontSize + ui.theme.px(4)});
  int number = 0;
  ImGui::PushStyleVar(ImGuiStyleVar_ItemSpacing, ImVec2(0, 0));
  for (const Question& question : questions()) {
    if (list_row(ui, state, fmt::format("query/question/{}", number++), ui.fonts.body,
                 ui.theme.text, question.title)) {
      asked = asked_of(question, state.rank, step);
    }
  }
  ImGui::PopStyleVar();
  ImGui::EndChild();
  ImGui::SetCursorScreenPos({box.min.x, box.max.y - below + ui.theme.px(10)});
  ImGui::BeginChild("history", {box.width(), below - ui.theme.px(10)}, false);
  ImGui::PushStyleVar(ImGuiStyleVar_ItemSpacing, ImVec2(0, 0));
  heading(ui, "Asked");
  number = 0;
  for (const std::string& sql : history_) {
    if (list_row(ui, state, fmt::format("query/history/{}", number++), ui.fonts.mono, ui.theme.dim,
                 line_of(sql))) {
      asked = sql;
    }
  }
  ImGui::PopStyleVar();
  ImGui::EndChild();
  if (!asked.empty()) ask(std::move(asked));
}

float ConsolePanel::draw_editor(Surface& ui, ViewState& state, const Box& box, bool beside) {
  const float height = std::min(editor_lines * ui.fonts.mono->FontSize + ui.theme.px(12),
                                std::max(box.height() / 3, 1.0F));
  ImGui::SetCursorScreenPos(box.min);
  ImGui::PushFont(ui.fonts.mono);
  const bool entered =
      ImGui::InputTextMultiline("##sql", text_.data(), text_.size(), {box.width(), height},
                                ImGuiInputTextFlags_EnterReturnsTrue);
  ImGui::PopFont();
  state.place("query/sql", ImGui::GetItemRectMin(), ImGui::GetItemRectMax());
  ImGui::SetCursorScreenPos({box.min.x, box.min.y + height + ui.theme.px(8)});
  const bool run = tab_button(ui, state, "Run", "query/run", true);
  if (run || entered) ask(text_.data());
  const auto next = [&] { ImGui::SameLine(0, ui.theme.px(4)); };
  if (job_->running()) {
    next();
    if (tab_button(ui, state, "Stop", "query/stop", false)) job_->stop();
  }
  if (!beside) {
    next();
    if (tab_button(ui, state, "Questions", "query/questions", questions_)) questions_ = !questions_;
  }
  if (!answer_.rows.empty()) {
    next();
    if (tab_button(ui, state, "Copy as CSV", "query/copy", false)) {
      std::string csv = query::csv_line(answer_.names);
      for (const auto& row : answer_.rows) csv += query::csv_line(query::texts_of(row));
      ImGui::SetClipboardText(csv.c_str());
    }
  }
  const char* hint = "Ctrl+Enter runs, a click on a row shows it in the timeline";
  const float y = box.min.y + height + ui.theme.px(8) + ImGui::GetStyle().FramePadding.y;
  if (ImGui::GetItemRectMax().x + text_width(ui.fonts.body, hint) + ui.theme.px(16) < box.max.x) {
    draw_text_right(ui.fonts.body, {box.max.x, y}, ui.theme.dim, hint);
  }
  return box.min.y + height + ui.theme.px(8) + ImGui::GetFrameHeight() + ui.theme.px(10);
}

// "3 rows in 12 ms"
std::string ConsolePanel::answer_text(const Surface& ui) const {
  if (job_->running()) return fmt::format("answering for {:.0f} s", job_->seconds());
  const auto time = static_cast<Time>(1e9 * answer_.seconds);
  std::string words = format_many(static_cast<std::int64_t>(answer_.rows.size()), "row");
  if (answer_.cut) words = "the first " + words;
  if (!ui.scripted) words += " in " + format_time(time);
  if (answer_.names.size() > columns_max) {
    words += fmt::format(", the first {} of {} columns", columns_max, answer_.names.size());
  }
  return words;
}

void ConsolePanel::draw_answer(Surface& ui, TraceModel& model, ViewState& state, const Box& box) {
  const bool failed = !answer_.status.ok() && !job_->running();
  std::string words = failed ? "⚠ " + answer_.status.message() : answer_text(ui);
  if (!refusal_.empty()) words = "⚠ " + refusal_;
  const bool alarm = failed || !refusal_.empty();
  state.fields["query"] = words;
  const Colour ink = alarm ? ui.colours().fail : ui.theme.dim;
  const float head = draw_wrapped(ui.fonts.body, box.min, ink, words, box.width());
  const float top = box.min.y + head + ui.theme.px(8);
  const std::size_t columns = std::min<std::size_t>(answer_.names.size(), columns_max);
  if (columns == 0 || box.max.y - top < ui.theme.row_px) return;
  ImGui::SetCursorScreenPos({box.min.x, top});
  constexpr ImGuiTableFlags flags = ImGuiTableFlags_ScrollX | ImGuiTableFlags_ScrollY |
                                    ImGuiTableFlags_Resizable | ImGuiTableFlags_SizingFixedFit |
                                    ImGuiTableFlags_NoSavedSettings | ImGuiTableFlags_PadOuterX;
  const std::string id = fmt::format("answer {}", answers_);
  // No higher than its rows: lines between columns end with them.
  const float line = ImGui::GetTextLineHeight() + 2 * ImGui::GetStyle().CellPadding.y;
  const float rows = line * static_cast<float>(answer_.rows.size() + 1);
  const float tall = std::min(rows + ImGui::GetStyle().ScrollbarSize, box.max.y - top);
  if (!ImGui::BeginTable(id.c_str(), static_cast<int>(columns), flags, {box.width(), tall})) return;
  ImGui::TableSetupScrollFreeze(0, 1);
  for (std::size_t k = 0; k < columns; ++k) ImGui::TableSetupColumn(answer_.names[k].c_str());
  ImGui::TableHeadersRow();
  ImGuiListClipper clipper;
  clipper.Begin(static_cast<int>(answer_.rows.size()));
  while (clipper.Step()) {
    for (int k = clipper.DisplayStart; k < clipper.DisplayEnd; ++k) {
      draw_row(ui, model, state, static_cast<std::size_t>(k), columns);
    }
  }
  clipper.End();
  ImGui::EndTable();
}

void ConsolePanel::draw_row(const Surface& ui, TraceModel& model, ViewState& state,
                            std::size_t number, std::size_t columns) {
  const std::vector<query::Value>& row = answer_.rows[number];
  ImGui::TableNextRow();
  std::string all;
  for (std::size_t k = 0; k < columns; ++k) {
    ImGui::TableSetColumnIndex(static_cast<int>(k));
    const std::string text = line_of(query::text_of(row[k]));
    all += (k == 0 ? "" : ", ") + text;
    if (k == 0) {
      ImGui::PushID(static_cast<int>(number));
      const ImVec2 at = ImGui::GetCursorPos();
      if (ImGui::Selectable("##row", false, ImGuiSelectableFlags_SpanAllColumns) && leads_) {
        refusal_ = show_place(model, state, place_of(answer_.names, row));
      }
      state.place(fmt::format("query/row/{}", number), ImGui::GetItemRectMin(),
                  ImGui::GetItemRectMax());
      ImGui::SetCursorPos(at);
      ImGui::PopID();
    }
    const std::string shown = fitted(text, ui.theme.px(cell_width));
    if (is_number(row[k])) {
      const float rest = ImGui::GetContentRegionAvail().x - ImGui::CalcTextSize(shown.c_str()).x;
      ImGui::SetCursorPosX(ImGui::GetCursorPosX() + std::max(rest, 0.0F));
    }
    ImGui::TextUnformatted(shown.c_str());
  }
  state.fields[fmt::format("query/row/{}", number)] = all;
}

void ConsolePanel::draw(Surface& ui, TraceModel& model, ViewState& state, const Box& box) {
  ImGui::GetWindowDrawList()->AddRectFilled(box.min, box.max, ui.theme.panel);
  if (job_ == nullptr) begin(model, state);
  take_answer(ui, state);
  const float pad = std::min(ui.theme.px(14), box.width() / 16);
  const Box inner{{box.min.x + pad, box.min.y + std::min(ui.theme.px(12), box.height() / 16)},
                  {box.max.x - pad, box.max.y - pad / 2}};
  const bool beside = box.width() > ui.theme.px(list_beside);
  const float left = beside ? inner.min.x + width_of_list(ui, box.width()) + pad : inner.min.x;
  if (beside) draw_questions(ui, model, state, {inner.min, {left - pad, inner.max.y}});
  const Box rest{{left, inner.min.y}, inner.max};
  const Box below{{left, draw_editor(ui, state, rest, beside)}, inner.max};
  if (below.height() < ui.theme.row_px) return;
  if (!beside && questions_) return draw_questions(ui, model, state, below);
  draw_answer(ui, model, state, below);
}

}  // namespace tessera::inspector
