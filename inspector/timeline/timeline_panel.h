// SPDX-License-Identifier: Apache-2.0
// The timeline: minimap, ruler, and a row of lanes per recorded rank, all in full if there is
// room, and otherwise the opened one.
#pragma once

#include "inspector/timeline/lane_painter.h"

namespace tessera::inspector {

class TimelinePanel {
 public:
  /// Draws into `box` and handles its mouse: wheel zooms at the cursor, drag pans, click selects.
  void draw(Surface& ui, TraceModel& model, ViewState& state, const Box& box);

 private:
  struct Row {
    Rank rank;
    float y, height;
    bool open;
  };
  struct LaneBox {
    Rank rank;
    std::int32_t stream;
    float y, height;
  };

  void draw_minimap(Surface& ui, TraceModel& model, ViewState& state, const Box& box);
  void draw_ruler(Surface& ui, TraceModel& model, const ViewState& state, const Box& box);
  void lay_out(const Surface& ui, TraceModel& model, const ViewState& state, const Box& box);
  void draw_rows(Surface& ui, TraceModel& model, ViewState& state, const Box& box);
  void draw_row_title(Surface& ui, TraceModel& model, ViewState& state, const Row& row,
                      const Box& box);
  void draw_lanes(Surface& ui, TraceModel& model, const ViewState& state, const Row& row);
  void draw_selection(Surface& ui, TraceModel& model, const ViewState& state, const Box& box);
  void handle_mouse(const Surface& ui, TraceModel& model, ViewState& state, const Box& box);
  void draw_scrollbar(const Surface& ui, const Box& box);

  LanePainter painter_;
  std::vector<Row> rows_;
  std::vector<LaneBox> lane_boxes_;
  float scroll_ = 0;
  float content_height_ = 0;
};

/// A tooltip with what is known about `span`.
void draw_span_tooltip(const Surface& ui, TraceModel& model, const SpanRef& span);

}  // namespace tessera::inspector
