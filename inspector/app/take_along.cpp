// SPDX-License-Identifier: Apache-2.0
#include "inspector/app/take_along.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <system_error>
#include <utility>

#include "inspector/widgets/drawing.h"
#include "inspector/widgets/format.h"
#include "inspector/widgets/span_lines.h"

namespace tessera::inspector {
namespace {

constexpr double said_for_s = 4, looks_s = 0.5;
constexpr int pictures_most = 10'000;  // of one name

// "run-findings.png", "run-findings-2.png" beside the trace.
std::string free_picture_name(const std::string& trace, const std::string& panel) {
  const std::filesystem::path path(trace);
  const std::string stem = (path.parent_path() / path.stem()).string() + "-" + panel;
  std::string name = stem + ".png";
  std::error_code none;
  for (int k = 2; k < pictures_most && std::filesystem::exists(name, none); ++k) {
    name = fmt::format("{}-{}.png", stem, k);
  }
  return name;
}

}  // namespace

void TakeAlong::save_picture(Surface& ui, const TraceModel& model, const ViewState& state) {
  picture_ = free_picture_name(model.path(), state.panel);
  ui.wish.picture = picture_;
}

void TakeAlong::copy_text(TraceModel& model, const ViewState& state) {
  std::string text;
  if (state.selection) {
    const SpanLines lines = span_lines(model, *state.selection);
    text = lines.title + "\n";
    for (const auto* const part : {&lines.place, &lines.figures}) {
      for (const std::string& line : *part) text += line + "\n";
    }
  } else {
    text = fmt::format("{}, rank {}, {} to {}\n", model.run().name, state.rank,
                       format_time(std::max<Time>(0, state.time.from())),
                       format_time(state.time.to()));
  }
  ImGui::SetClipboardText(text.c_str());
  say(state.selection ? "The selected operation is copied." : "What is in view is copied.");
}

void TakeAlong::copy_sql(const ViewState& state) {
  const std::string sql =
      state.selection
          ? fmt::format("SELECT * FROM op_rank WHERE rank = {} AND op = {};", state.selection->rank,
                        state.selection->op)
          : fmt::format(
                "SELECT * FROM op_rank WHERE rank = {} AND begin < {} AND end > {} ORDER BY begin;",
                state.rank, state.time.to(), state.time.from());
  ImGui::SetClipboardText(sql.c_str());
  say(state.selection ? "A query for the selected operation is copied."
                      : "A query for what is in view is copied.");
}

void TakeAlong::say(std::string words) {
  said_ = std::move(words);
  until_ = ImGui::GetTime() + said_for_s;
}

void TakeAlong::draw(Surface& ui, ViewState& state) {
  if (ui.picture_done) {
    say(ui.picture_done->ok() ? "Saved " + picture_ : "⚠ " + ui.picture_done->message());
    ui.picture_done.reset();
  }
  state.fields["said"] = said_;
  if (said_.empty()) return;
  if (ImGui::GetTime() > until_) return said_.clear();
  ui.wish.wake_s = looks_s;
  const ImVec2 screen = ImGui::GetIO().DisplaySize;
  const float pad = ui.theme.px(10);
  const float width =
      std::min(text_width(ui.fonts.body, said_), std::max(screen.x - 4 * pad, 1.0F));
  const WrappedText text(ui.fonts.body, said_, width);
  const ImVec2 at{std::floor((screen.x - width) / 2),
                  std::floor(screen.y - text.height() - 4 * pad)};
  ImDrawList* draw = ImGui::GetForegroundDrawList();
  draw->AddRectFilled({at.x - pad, at.y - pad}, {at.x + width + pad, at.y + text.height() + pad},
                      ui.theme.field_active, ui.theme.px(4));
  text.draw(at, ui.theme.text, draw);
}

}  // namespace tessera::inspector
