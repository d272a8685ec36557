// SPDX-License-Identifier: Apache-2.0
// The whole run at a glance: every rank and step as a heat map, the spread per step, the odd ones.
#pragma once

#include <vector>

#include "inspector/model/view_state.h"
#include "inspector/render/surface.h"

namespace tessera::inspector {

class OverviewPanel {
 public:
  /// A click on a cell opens that rank and step in the timeline.
  void draw(Surface& ui, TraceModel& model, ViewState& state, const Box& box);

 private:
  void refresh(const TraceModel& model, Metric metric);
  void draw_metrics(Surface& ui, ViewState& state, const Box& box);
  void draw_heat_map(Surface& ui, TraceModel& model, ViewState& state, const Box& box);
  void draw_map_axes(Surface& ui, const TraceModel& model, const Box& map);
  void draw_cells_text(const Surface& ui, const TraceModel& model, const Box& map);
  void hover_map(TraceModel& model, ViewState& state, const Box& map);
  void draw_spread(const Surface& ui, const TraceModel& model, const Box& box);
  void draw_side(Surface& ui, TraceModel& model, ViewState& state, const Box& box);
  void draw_outliers(Surface& ui, TraceModel& model, ViewState& state);

  // Values computed for `metric_`.
  bool fresh_ = false;
  Metric metric_ = Metric::step_time;
  std::vector<double> values_;
  RobustScale scale_;
  std::vector<Outlier> outliers_;
  ImTextureID map_texture_ = nullptr;
  int map_width_ = 0, map_height_ = 0;
};

}  // namespace tessera::inspector
