// SPDX-License-Identifier: Apache-2.0
// The whole run at a glance: every rank and step as a heat map, the spread per step, the odd ones.
#pragma once

#include <string>
#include <vector>

#include "inspector/ranks/class_list.h"
#include "inspector/widgets/panel.h"

namespace tessera::inspector {

class OverviewPanel final : public Panel {
 public:
  /// A click on a cell opens that rank and step in the timeline.
  void draw(Surface& ui, TraceModel& model, ViewState& state, const Box& box) override;
  bool renew(const TraceModel& model) override;

 private:
  float draw_metrics(Surface& ui, const TraceModel& model, ViewState& state, const Box& box);
  void draw_heat_map(Surface& ui, TraceModel& model, ViewState& state, const Box& box);
  void draw_map_axes(Surface& ui, const TraceModel& model, const Box& map);
  void draw_cells_text(const Surface& ui, const TraceModel& model, const Box& map);
  void hover_map(TraceModel& model, ViewState& state, const Box& map);
  static void draw_waiting(const Surface& ui, const TraceModel& model, const Box& box);
  void draw_side(Surface& ui, TraceModel& model, ViewState& state, const Box& box);
  std::string excess_text(const analysis::Outlier& outlier) const;
  static void draw_findings(Surface& ui, TraceModel& model, ViewState& state);
  void draw_outliers(Surface& ui, TraceModel& model, ViewState& state);

  void draw_odd_marks(const Surface& ui, TraceModel& model, const Box& map);

  ClassList classes_;
  const analysis::MetricFigures* figures_ = nullptr;  // this frame's; the model's
  // What the texture shows.
  ImTextureID map_texture_ = nullptr;
  analysis::Metric map_metric_ = analysis::Metric::step_time;
  int map_width_ = 0, map_height_ = 0;
};

}  // namespace tessera::inspector
