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
    analysis::UsageBy by = analysis::UsageBy::group;
    bool operator==(const Wanted&) const = default;
  };
  /// What the table is of, unless a range is measured.
  enum class Scope : std::uint8_t { step, view, run };
  std::pair<Time, Time> range_of(const TraceModel& model, const ViewState& state) const;
  static Found sum_up(analysis::Trace& trace, const Wanted& wanted);
  void find_out(const Surface& ui, TraceModel& model, ViewState& state);
  void take(bool waits);
  void draw_choices(Surface& ui, const TraceModel& model, ViewState& state, ImVec2 at);
  float draw_head(Surface& ui, TraceModel& model, ViewState& state, const Box& box);

  Scope scope_ = Scope::step;
  analysis::UsageBy by_ = analysis::UsageBy::group;
  std::vector<analysis::GroupUsage> rows_;
  std::vector<analysis::TransferPoint> points_;
  Wanted shown_;  // what rows_ and points_ are of
  // A thread sums up what a long run has too many of for a frame.
  Wanted sought_;
  std::shared_ptr<std::optional<analysis::Trace>> source_;  // its own
  std::future<Found> job_;
  Status problem_;
};

}  // namespace tessera::inspector
