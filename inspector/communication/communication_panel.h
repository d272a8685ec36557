// SPDX-License-Identifier: Apache-2.0
// Communication of the opened rank in the range that is marked, or else in view: a table by process
// group and kind, and every collective as a point of size and rate.
#pragma once

#include <vector>

#include "inspector/widgets/panel.h"
#include "tessera/analysis/group_usage.h"

namespace tessera::inspector {

class CommunicationPanel final : public Panel {
 public:
  /// A click on a row opens its costliest collective in the timeline, on a point that one.
  void draw(Surface& ui, TraceModel& model, ViewState& state, const Box& box) override;

 private:
  void find_out(TraceModel& model, const ViewState& state);
  float draw_head(Surface& ui, TraceModel& model, ViewState& state, const Box& box);
  float draw_table(Surface& ui, TraceModel& model, ViewState& state, const Box& box);
  void draw_scatter(Surface& ui, TraceModel& model, ViewState& state, const Box& box);

  std::vector<analysis::GroupUsage> rows_;
  std::vector<analysis::TransferPoint> points_;
  // The rank and the range that rows_ and points_ are of.
  Rank rank_ = -1;
  Time from_ = 0, to_ = 0;
};

}  // namespace tessera::inspector
