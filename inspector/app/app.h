// SPDX-License-Identifier: Apache-2.0
// The program inside the window: one layout, the panels it arranges, and what commands do to it
// (commands.h lists them).
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>

#include "inspector/app/finder.h"
#include "inspector/app/history.h"
#include "inspector/app/live_trace.h"
#include "inspector/app/second_panel.h"
#include "inspector/app/take_along.h"
#include "inspector/widgets/panel.h"
#include "tessera/inspector/inspector.h"

namespace tessera::inspector {

class App {
 public:
  /// Fails: as TraceModel::open; invalid_argument (an empty range, a rank that was not recorded).
  static Result<std::unique_ptr<App>> open(const InspectOptions& options,
                                           const Layout& layout = {});

  /// One frame. True while a key is held or something goes on, so that the next frame follows at
  /// once.
  bool draw(Surface& ui);

  ViewState& state() { return state_; }
  TraceModel& model() { return *model_; }

  // Actions of the commands.
  void step_rank(int direction);
  void step_span(int direction);
  /// Selects the next operation of the opened rank that `ViewState::search` fits, or the one
  /// before.
  void step_match(int direction);
  /// Shows the step before or after the one in view.
  void step_step(int direction);
  /// Selects the first op that the selected one waited for.
  void select_cause();
  /// Selects the first op that waited for the selected one.
  void select_use();
  /// The selection fills the view; if it does already, or nothing is selected, the step in view.
  void frame_selection();
  /// A mark at the cursor, or at what is selected, to be written into.
  void add_note();
  void clear();
  TakeAlong& take_along() { return take_along_; }
  History& history() { return history_; }
  void show_step(std::int32_t step);
  /// Whether the view stays at the end of a recording that goes on; moving it ends that.
  bool follows() const { return followed_.has_value(); }
  void follow(bool on);
  /// Moves the view to `span` if it is not wholly in it.
  void bring_into_view(const SpanRef& span);

 private:
  App(std::unique_ptr<TraceModel> model, const InspectOptions& options, const Layout& layout);
  std::pair<Time, Time> first_view();
  const Problem* first_failure(std::optional<Rank> rank) const;
  void select_a_prefetch();
  float draw_live(Surface& ui, float right, float top);
  void look_for_more(Surface& ui);
  void renew(std::unique_ptr<TraceModel> newer);
  Panel& panel(const std::string& name);
  void draw_body(Surface& ui, const Box& body);
  void draw_help(const Surface& ui);
  bool handle_keys(Surface& ui);
  bool move_by_held_keys(const Surface& ui);
  void note_shortcuts(const Surface& ui);
  std::int32_t step_in_view() const;
  void select_first(const std::vector<SpanRef>& spans);

  std::unique_ptr<TraceModel> model_;
  ViewState state_;
  LiveTrace live_;
  std::optional<std::pair<Time, Time>> followed_;  // the view, if it stays at the end
  Finder finder_;
  History history_;
  TakeAlong take_along_;
  SecondPanel second_;
  bool shows_both_ = false;
  std::set<int> shortcuts_;  // keys that are held since they were pressed with Ctrl or Alt
  std::map<std::string, std::unique_ptr<Panel>> panels_;  // by name, those that were shown
};

}  // namespace tessera::inspector
