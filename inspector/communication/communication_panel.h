// SPDX-License-Identifier: Apache-2.0
// Communication of the opened rank in the range that is marked, or else in view: a table by process
// group and kind, and every collective as a point of size and rate.
#pragma once

#include <future>
#include <memory>
#include <optional>
#include <vector>

#include "inspector/widgets/panel.h"
#include "tessera/analysis/group_usage.h"

namespace tessera::inspector {

class CommunicationPanel final : public Panel {
 public:
  ~CommunicationPanel() override;
  /// A click on a row opens its costliest collective in the timeline, on a point that one.
  void draw(Surface& ui, TraceModel& model, ViewState& state, const Box& box) override;

 private:
  /// What collectives of a rank in a range come to.
  struct Found {
    std::vector<analysis::GroupUsage> rows;
    std::vector<analysis::TransferPoint> points;
    Status problem;
  };
  struct Wanted {
    Rank rank = -1;
    Time from = 0, to = 0;
    bool operator==(const Wanted&) const = default;
  };
  static Found sum_up(analysis::Trace& trace, const Wanted& wanted);
  void find_out(const Surface& ui, TraceModel& model, ViewState& state);
  void take(bool waits);
  float draw_head(Surface& ui, TraceModel& model, ViewState& state, const Box& box);
  float draw_table(Surface& ui, TraceModel& model, ViewState& state, const Box& box);
  void draw_scatter(Surface& ui, TraceModel& model, ViewState& state, const Box& box);

  std::vector<analysis::GroupUsage> rows_;
  std::vector<analysis::TransferPoint> points_;
  // The rank and the range that rows_ and points_ are of.
  Rank rank_ = -1;
  Time from_ = 0, to_ = 0;
  // A thread sums up what a long run has too many of for a frame.
  Wanted sought_;
  std::shared_ptr<std::optional<analysis::Trace>> source_;  // its own
  std::future<Found> job_;
  Status problem_;
};

}  // namespace tessera::inspector
