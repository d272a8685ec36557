// SPDX-License-Identifier: Apache-2.0
// The state of the view: shared by all panels, changed by keys, mouse and options.
#pragma once

#include <imgui.h>

#include <map>
#include <optional>
#include <string>

#include "inspector/model/trace_model.h"
#include "inspector/ranks/rank_metrics.h"
#include "inspector/timeline/time_axis.h"

namespace tessera::inspector {

enum class Tab : std::uint8_t { timeline, overview };

struct Box {
  ImVec2 min, max;
  float width() const { return max.x - min.x; }
  float height() const { return max.y - min.y; }
  bool contains(ImVec2 p) const {
    return min.x <= p.x && p.x < max.x && min.y <= p.y && p.y < max.y;
  }
};

struct ViewState {
  TimeView time;
  Tab tab = Tab::timeline;
  Panel panel = Panel::all;
  Rank rank = 0;  // the opened rank
  std::optional<SpanRef> selection;
  std::optional<SpanRef> hovered;  // this frame
  std::optional<Time> cursor;      // time under the mouse, this frame
  Metric metric = Metric::step_time;
  std::int32_t step = 0;  // the step that the overview's grid shows
  bool show_help = false;
  bool scroll_to_rank = true;          // bring the opened rank into view once
  std::map<std::string, Box> widgets;  // where things are, for scripts and tests: "tab/overview"

  void place(const std::string& name, ImVec2 min, ImVec2 max) { widgets[name] = {min, max}; }
};

/// Left edge of everything that shares the time axis, from the panel's left.
inline constexpr float gutter_px = 92;

}  // namespace tessera::inspector
