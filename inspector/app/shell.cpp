// SPDX-License-Identifier: Apache-2.0
#include "inspector/app/shell.h"

#include <GLFW/glfw3.h>

#include "inspector/app/commands.h"

namespace tessera::inspector {

Shell::Shell(const InspectOptions& options)
    : options_(options), start_(options.traces), recent_(options.recent_file) {
  if (!options.layout_file.empty()) layout_ = read_layout(options.layout_file);
  kept_layout_ = layout_;
}

Shell::~Shell() {
  if (layout_ != kept_layout_) write_layout(options_.layout_file, layout_);
}

Result<std::unique_ptr<Shell>> Shell::open(const InspectOptions& options) {
  std::unique_ptr<Shell> shell(new Shell(options));
  if (options.path.empty()) return shell;
  TESSERA_ASSIGN(shell->app_, App::open(options, shell->layout_));
  shell->recent_.add(options.path);
  return shell;
}

std::string Shell::title() const {
  return app_ == nullptr ? "Tessera" : app_->model().run().name + " - Tessera";
}

// What was open stays open if the other cannot be.
void Shell::show(const Wanted& wanted, Surface& ui) {
  const auto named = named_traces(wanted.path);
  const bool compared = named.ok() && !named->against.empty();
  InspectOptions options = options_;
  options.path = named.ok() ? named->path : wanted.path;
  options.against = compared ? named->against : wanted.against;
  options.panel = compared ? "compare" : wanted.panel;
  options.time.reset();
  options.rank.reset();
  options.query.clear();
  options.beside.clear();
  options.below.clear();
  auto opened = named.ok() ? App::open(options, layout_) : named.status();
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
  const bool moving = draw_page(ui);
  note_layout(ui);
  return moving;
}

// Written once it stays the same for a frame and nobody drags: not for each step of a change.
void Shell::note_layout(const Surface& ui) {
  Layout now = app_ != nullptr ? app_->state().layout : layout_;
  now.theme = layout_.theme;
  now.zoom = layout_.zoom;
  if (seen_theme_.value_or(ui.wish.kind) != ui.wish.kind) now.theme = ui.wish.kind;
  if (seen_zoom_.value_or(ui.wish.zoom) != ui.wish.zoom) now.zoom = ui.wish.zoom;
  seen_theme_ = ui.wish.kind;
  seen_zoom_ = ui.wish.zoom;
  now.width = ui.window.width;
  now.height = ui.window.height;
  now.maximised = ui.window.maximised;
  const bool settled = now == layout_ && !ImGui::IsMouseDown(0);
  layout_ = now;
  if (!settled || layout_ == kept_layout_) return;
  kept_layout_ = layout_;
  write_layout(options_.layout_file, layout_);
}

bool Shell::draw_page(Surface& ui) {
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
      ui.wish.kind = ui.wish.kind == ThemeKind::dark ? ThemeKind::light : ThemeKind::dark;
    }
  }
  const auto wanted = start_.draw(ui, recent_, problem_, app_ != nullptr);
  if (!wanted) return false;
  show(*wanted, ui);
  return true;
}

}  // namespace tessera::inspector
