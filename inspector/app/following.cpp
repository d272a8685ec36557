// SPDX-License-Identifier: Apache-2.0
// What the program does while the recording that it shows goes on.
#include <fmt/format.h>

#include "inspector/app/app.h"
#include "inspector/widgets/drawing.h"
#include "inspector/widgets/format.h"

namespace tessera::inspector {
namespace {

constexpr double looks_every_s = 0.5;

}  // namespace

void App::follow(bool on) {
  followed_.reset();
  if (!on) return;
  const Time length = state_.time.to() - state_.time.from(), end = model_->info().end;
  if (state_.time.to() != end) state_.time.show(end - length, end);
  followed_ = {state_.time.from(), state_.time.to()};
}

void App::look_for_more(Surface& ui) {
  // Whoever moves the view looks at something.
  if (followed_ && *followed_ != std::pair(state_.time.from(), state_.time.to())) follow(false);
  if (!live_.goes_on()) return;
  ui.wish.wake_s = looks_every_s;
  if (auto newer = live_.take(*model_, ui.scripted)) renew(std::move(newer));
}

// What is looked at stays as it is: spans are only ever added behind those of their lane.
void App::renew(std::unique_ptr<TraceModel> newer) {
  const std::int32_t before = model_->step_count();
  newer->set_against(model_->release_against());
  newer->forgive_unfinished();
  if (!model_->recorded(state_.rank)) state_.rank = newer->slowest_recorded();
  std::erase_if(panels_, [&](auto& panel) { return !panel.second->renew(*newer); });
  model_ = std::move(newer);
  const bool first_step = before == 0 && model_->last_step() >= 0;
  const Time from = first_step ? model_->step_range(model_->last_step()).first : state_.time.from();
  const Time to = first_step ? model_->info().end : state_.time.to();
  state_.time = TimeView(0, 1, model_->info().end);
  state_.time.show(from, to);
  if (state_.selection) {
    state_.selection = model_->find(state_.selection->rank, state_.selection->op);
  }
  if (followed_) follow(true);
}

// Until when the recording reaches, as a button that follows its end. Returns its left edge.
float App::draw_live(Surface& ui, float right, float top) {
  if (!live_.goes_on()) return right;
  const std::string label = fmt::format("● until {}", format_time(model_->info().end));
  const float width =
      ImGui::CalcTextSize(label.c_str()).x + 2 * ImGui::GetStyle().FramePadding.x + ui.theme.px(12);
  state_.fields["live"] = label;
  if (right - width < ui.theme.px(8)) return right;  // no room
  ImGui::SetCursorScreenPos({right - width, top});
  if (tab_button(ui, state_, (label + "###live").c_str(), "live", follows())) follow(!follows());
  if (ImGui::IsItemHovered()) {
    ImGui::SetTooltip(follows() ? "follows the end of the recording; L: stand still"
                                : "stands still; L: follow the end of the recording");
  }
  return right - width;
}

}  // namespace tessera::inspector
