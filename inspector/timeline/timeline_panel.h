// SPDX-License-Identifier: Apache-2.0
// The timeline: a row of lanes per recorded rank. Rows share the room there is: lanes of all ranks
// are as high as fits, and those of the opened one always high enough for labels. What few ranks
// leave is for their memory, below the lanes of each.
#pragma once

#include "inspector/timeline/lane_painter.h"

namespace tessera::inspector {

class TimelinePanel {
 public:
  /// Draws into `box` and handles its mouse: wheel zooms at the cursor, drag pans, click selects.
  void draw(Surface& ui, TraceModel& model, ViewState& state, const Box& box);
  /// px that rows of the greatest useful height and the legend take: more would stay empty.
  float wanted_height(const Surface& ui, TraceModel& model, const ViewState& state,
                      float width) const;

 private:
  struct Row {
    Rank rank;
    float y, height;
    float lane_height;
    float memory;  // px of its strip of memory, at its foot; 0: none
    bool open;     // high enough for labels
    bool pinned;   // on top, wherever others are scrolled to
  };
  struct LaneBox {
    Rank rank;
    std::int32_t stream;
    float y, height;
  };

  void lay_out(const Surface& ui, TraceModel& model, const ViewState& state, const Box& box);
  void scroll_to_rank(const Surface& ui, TraceModel& model, ViewState& state, const Box& rows);
  void draw_rows(Surface& ui, TraceModel& model, ViewState& state, const Box& box);
  void draw_row_title(Surface& ui, TraceModel& model, ViewState& state, const Row& row,
                      const Box& box);
  void draw_lanes(Surface& ui, TraceModel& model, const Row& row);
  void draw_memory(const Surface& ui, TraceModel& model, ViewState& state, const Row& row,
                   const Box& box);
  void draw_selection(Surface& ui, TraceModel& model, const ViewState& state, const Box& box);
  void handle_mouse(const Surface& ui, TraceModel& model, ViewState& state, const Box& box);
  bool draw_path(const Surface& ui, TraceModel& model, const ViewState& state, const Box& box);
  void draw_scrollbar(const Surface& ui, const Box& box);

  LanePainter painter_;
  std::vector<Row> rows_;
  std::vector<LaneBox> lane_boxes_;
  bool zooms_ = false;  // the middle button is down, for a range
  bool path_drawn_ = false;
  float scroll_ = 0;
  float scrolled_height_ = 0;  // of the rows when the opened rank was brought into view
  float pinned_ = 0;           // where pinned rows end
  float content_height_ = 0;
};

/// A tooltip with what is known about `span`.
void draw_span_tooltip(const Surface& ui, TraceModel& model, const SpanRef& span);

}  // namespace tessera::inspector
