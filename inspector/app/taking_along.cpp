// SPDX-License-Identifier: Apache-2.0
// What the program gives away: pictures of itself, and what is selected as text.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "inspector/app/app.h"
#include "inspector/widgets/drawing.h"
#include "inspector/widgets/format.h"
#include "inspector/widgets/span_lines.h"

namespace tessera::inspector {
namespace {

constexpr double said_for_s = 4;
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

void App::save_picture(Surface& ui) {
  ui.wish.picture = free_picture_name(model_->path(), state_.panel);
  picture_ = ui.wish.picture;
}

void App::copy_text() {
  std::string text;
  if (state_.selection) {
    const SpanLines lines = span_lines(*model_, *state_.selection);
    text = lines.title + "\n";
    for (const auto* const part : {&lines.place, &lines.figures}) {
      for (const std::string& line : *part) text += line + "\n";
    }
  } else {
    text = fmt::format("{}, rank {}, {} to {}\n", model_->run().name, state_.rank,
                       format_time(std::max<Time>(0, state_.time.from())),
                       format_time(state_.time.to()));
  }
  ImGui::SetClipboardText(text.c_str());
  say(state_.selection ? "The selected operation is copied." : "What is in view is copied.");
}

void App::say(std::string words) {
  said_ = std::move(words);
  said_until_ = ImGui::GetTime() + said_for_s;
}

// What was done last, for a while, at the lower edge.
void App::draw_said(Surface& ui) {
  if (ui.picture_done) {
    say(ui.picture_done->ok() ? "Saved " + picture_ : "⚠ " + ui.picture_done->message());
    ui.picture_done.reset();
  }
  state_.fields["said"] = said_;
  if (said_.empty()) return;
  if (ImGui::GetTime() > said_until_) return said_.clear();
  ui.wish.wake_s = 0.5;
  const ImVec2 screen = ImGui::GetIO().DisplaySize;
  const float pad = ui.theme.px(10), width = std::min(text_width(ui.fonts.body, said_),
                                                      std::max(screen.x - 4 * pad, 1.0F));
  const float height = wrapped_height(ui.fonts.body, said_, width);
  const ImVec2 at{std::floor((screen.x - width) / 2), screen.y - height - 4 * pad};
  ImDrawList* draw = ImGui::GetForegroundDrawList();
  draw->AddRectFilled({at.x - pad, at.y - pad}, {at.x + width + pad, at.y + height + pad},
                      ui.theme.field_active, ui.theme.px(4));
  draw->AddText(ui.fonts.body, ui.fonts.body->FontSize, at, ui.theme.text, said_.c_str(), nullptr,
                width);
}

void App::go_to(const std::optional<Place>& place) {
  if (!place) return;
  state_.panel = place->panel;
  state_.rank = place->rank;
  state_.time.show(place->from, place->to);
  state_.selection = place->selection;
  state_.scroll_to_rank = true;
}

}  // namespace tessera::inspector
