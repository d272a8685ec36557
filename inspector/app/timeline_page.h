// SPDX-License-Identifier: Apache-2.0
// The page of the opened rank: operations above memory on one time axis, details beside them.
#pragma once

#include "inspector/timeline/timeline_panel.h"
#include "inspector/widgets/panel.h"

namespace tessera::inspector {

/// Which parts fill the page; at least one.
struct TimelineParts {
  bool timeline;
  bool memory;
};

class TimelinePage final : public Panel {
 public:
  explicit TimelinePage(TimelineParts parts) : parts_(parts) {}

  /// The column of details and legends is left out where it would take more than half the width.
  void draw(Surface& ui, TraceModel& model, ViewState& state, const Box& box) override;
  bool renew(const TraceModel&) override { return true; }  // all is laid out in each frame

 private:
  void draw_column(Surface& ui, TraceModel& model, ViewState& state, const Box& box,
                   float split) const;
  float split_of(const Surface& ui, TraceModel& model, const ViewState& state,
                 const Box& box) const;

  bool shows_memory(const ViewState& state) const {
    return parts_.memory && (!parts_.timeline || !state.layout.hides_memory);
  }
  void drag_edges(const Surface& ui, ViewState& state, const Box& box, float side, float split);

  enum class Edge : std::uint8_t { none, memory, details };
  Edge dragged_ = Edge::none;
  TimelineParts parts_;
  TimelinePanel timeline_;
};

}  // namespace tessera::inspector
