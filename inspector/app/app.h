// SPDX-License-Identifier: Apache-2.0
// The program inside the window: one layout, the keys, and the panels it arranges.
//
// Keys: W S zoom, A D pan (Shift faster), Up Down other rank, Left Right neighbouring span, F frame
// the selection or the step, Home the whole run, 1 2 ... tabs (panels.cpp), T theme, ? this list,
// Esc clear.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "inspector/widgets/panel.h"
#include "tessera/inspector/inspector.h"

namespace tessera::inspector {

class App {
 public:
  /// Fails: as TraceModel::open; invalid_argument (an empty range, a rank that was not recorded).
  static Result<std::unique_ptr<App>> open(const InspectOptions& options);

  /// One frame. True while a key is held, so that the next frame follows at once.
  bool draw(Surface& ui);

  ViewState& state() { return state_; }
  TraceModel& model() { return *model_; }

 private:
  App(std::unique_ptr<TraceModel> model, const InspectOptions& options);
  std::pair<Time, Time> first_view();
  void select_a_prefetch();
  void draw_top_bar(Surface& ui, const Box& box);
  void draw_tabs(Surface& ui);
  Panel& shown();
  void draw_help(const Surface& ui);
  bool handle_keys(Surface& ui);
  void step_rank(int direction);
  void step_span(int direction);
  void frame_selection();

  std::unique_ptr<TraceModel> model_;
  ViewState state_;
  std::map<std::string, std::unique_ptr<Panel>> panels_;  // by name, those that were shown
};

}  // namespace tessera::inspector
