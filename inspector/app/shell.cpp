// SPDX-License-Identifier: Apache-2.0
#include "inspector/app/shell.h"

#include <GLFW/glfw3.h>

#include "inspector/app/commands.h"

namespace tessera::inspector {

Shell::Shell(const InspectOptions& options)
    : options_(options), start_(options.traces), recent_(options.recent_file) {}

Result<std::unique_ptr<Shell>> Shell::open(const InspectOptions& options) {
  std::unique_ptr<Shell> shell(new Shell(options));
  if (options.path.empty()) return shell;
  TESSERA_ASSIGN(shell->app_, App::open(options));
  shell->recent_.add(options.path);
  return shell;
}

std::string Shell::title() const {
  return app_ == nullptr ? "Tessera" : app_->model().run().name + " - Tessera";
}

// What was open stays open if the other cannot be.
void Shell::show(const Wanted& wanted, Surface& ui) {
  InspectOptions options = options_;
  options.path = trace_file(wanted.path);
  options.against = wanted.against;
  options.panel = wanted.panel;
  options.time.reset();
  options.rank.reset();
  options.query.clear();
  auto opened = App::open(options);
  problem_ = opened.ok() ? "" : opened.status().message();
  if (!opened.ok()) {
    if (app_ != nullptr) app_->state().show_start = true;
    return;
  }
  app_ = std::move(opened).value();
  recent_.add(options.path);
  ui.wish.title = title();
}

bool Shell::draw(Surface& ui) {
  if (!ui.dropped_files.empty()) {
    const std::string dropped = ui.dropped_files.front();
    ui.dropped_files.clear();
    show({dropped, "", "all"}, ui);
  }
  if (app_ != nullptr && !app_->state().show_start) return app_->draw(ui);
  for (const KeyPress& press : ui.presses) {
    if (press.key == GLFW_KEY_ESCAPE && app_ != nullptr) app_->state().show_start = false;
    const bool writes = ImGui::GetIO().WantTextInput;
    if (press.key == GLFW_KEY_T && press.mods == 0 && !press.repeat && !writes) {
      ui.wish.kind = ui.theme.kind == ThemeKind::dark ? ThemeKind::light : ThemeKind::dark;
    }
  }
  const auto wanted = start_.draw(ui, recent_, problem_, app_ != nullptr);
  if (!wanted) return false;
  show(*wanted, ui);
  return true;
}

}  // namespace tessera::inspector
