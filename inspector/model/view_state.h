// SPDX-License-Identifier: Apache-2.0
// The state of the view: shared by all panels, changed by keys, mouse and options.
#pragma once

#include <imgui.h>

#include <bitset>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "inspector/model/layout.h"
#include "inspector/model/notes.h"
#include "inspector/model/time_axis.h"
#include "inspector/model/trace_model.h"

namespace tessera::inspector {

struct Box {
  ImVec2 min, max;
  float width() const { return max.x - min.x; }
  float height() const { return max.y - min.y; }
  bool contains(ImVec2 p) const {
    return min.x <= p.x && p.x < max.x && min.y <= p.y && p.y < max.y;
  }
};

/// The least that names of lanes have left of everything that shares the time axis.
inline constexpr float least_gutter_px = 92;

struct ViewState {
  TimeView time;
  float gutter = least_gutter_px;  // where the axis begins, from the panel's left, at scale 1
  std::string panel = "all";       // the name of what fills the screen (app/panels.h)
  Rank rank = 0;                   // the opened rank
  std::optional<SpanRef> selection;
  std::optional<SpanRef> hovered;                 // this frame
  std::optional<std::pair<Time, Time>> measured;  // a range that somebody marked
  std::optional<Time> cursor;                     // time under the mouse, this frame
  std::optional<Time> cursor_before;              // in the frame before
  std::optional<double> cursor_share;             // where that is, 0 left to 1 right
  std::optional<analysis::Metric> metric;  // of the overview; not chosen yet: the telling one
  std::int32_t step = 0;                   // the step that the grid of ranks shows
  std::string search;                      // words of operations that N looks for
  std::set<Rank> pinned;                   // ranks whose rows stay on top
  std::string sql;                         // what Query asks first; "": a question of its own
  Status answered;                         // why Query's last question has no answer
  std::bitset<memory_class_count> classes_in_view;  // of the device's memory, as it was drawn
  bool busy = false;                                // something goes on without input: draw again
  bool show_help = false;
  bool show_palette = false;
  bool show_start = false;     // the page that opens traces
  bool show_path = false;      // the critical path as a line in the timeline
  bool scroll_to_rank = true;  // bring the opened rank into view once
  Layout layout;
  Notes notes;
  std::optional<std::size_t> open_note;  // that is written into
  std::string note_problem;              // why notes cannot be kept

  // For scripts and tests: where things are ("tab/all"), and what fields said last ("run/MFU").
  std::map<std::string, Box> widgets;
  std::map<std::string, std::string> fields;

  /// The mouse is at `x` of a stretch that shows time.
  void point_at(float x, float left, float width) {
    cursor = time.time_at(x, left, width);
    cursor_share = static_cast<double>((x - left) / width);
  }
  /// The time under the mouse, also for what is drawn before the mouse is found.
  std::optional<Time> pointed() const { return cursor ? cursor : cursor_before; }
  void place(const std::string& name, ImVec2 min, ImVec2 max) { widgets[name] = {min, max}; }
  /// Whoever wrote into a note is through.
  void close_note() {
    open_note.reset();
    const Status kept = notes.save();
    note_problem = kept.ok() ? "" : kept.message();
  }
  /// The opened rank's row stays on top, or no longer does.
  void pin_rank() {
    if (pinned.erase(rank) == 0) pinned.insert(rank);
  }
  /// Opens `chosen` where its spans are.
  void open_rank(Rank chosen) {
    rank = chosen;
    panel = "all";
    scroll_to_rank = true;
  }
};

/// The stretch of `box` that shows time: between the gutter and `right_px` from the right edge, at
/// least a pixel wide however narrow the box is, so that a time always has a place.
struct TimeStretch {
  float left, width;
};
inline TimeStretch time_stretch(const Box& box, float gutter, float right) {
  const float left = box.min.x + gutter;
  return {left, box.max.x - left - right < 1 ? 1 : box.max.x - left - right};
}

}  // namespace tessera::inspector
