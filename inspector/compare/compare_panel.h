// SPDX-License-Identifier: Apache-2.0
// Two runs on one axis: the lanes of the opened rank in A and in B, how much longer each operation
// takes in B, and why steps differ.
#pragma once

#include <array>
#include <atomic>
#include <future>
#include <optional>

#include "inspector/widgets/legend.h"
#include "inspector/widgets/panel.h"
#include "tessera/analysis/compare.h"
#include "tessera/analysis/step_pairs.h"

namespace tessera::inspector {

class ComparePanel final : public Panel {
 public:
  ~ComparePanel() override { stop_ = true; }
  /// Shows the step in view. The wheel zooms, a drag moves, a click selects the operation in A.
  void draw(Surface& ui, TraceModel& model, ViewState& state, const Box& box) override;

 private:
  /// The lanes of one stream.
  struct Block {
    std::int32_t stream = 0;  // of A
    float y = 0;              // of A's lane
  };

  void find_out(TraceModel& model, ViewState& state, bool patient);
  void find_causes(TraceModel& model, ViewState& state, bool patient);
  float draw_head(Surface& ui, TraceModel& model, ViewState& state, const Box& box);
  float draw_blocks(Surface& ui, TraceModel& model, ViewState& state, const Box& box);
  void draw_ops(const Surface& ui, TraceModel& model, ViewState& state, const Box& box);
  void draw_difference(const Surface& ui, const ViewState& state, const Block& block,
                       const Box& box) const;
  void handle_mouse(const Surface& ui, TraceModel& model, ViewState& state, const Box& box);
  float draw_legends(const Surface& ui, const TraceModel& model, ViewState& state,
                     const Box& box) const;
  float draw_causes(Surface& ui, ViewState& state, const Box& box) const;
  float draw_kinds(Surface& ui, ViewState& state, const Box& box) const;
  std::int32_t stream_of(const analysis::ComparedOp& op) const;

  std::optional<Result<analysis::Comparison>> comparison_;
  std::atomic<bool> stop_ = false;                 // the job, which nobody waits for any more
  std::future<Result<analysis::Comparison>> job_;  // valid: under way
  std::optional<Result<analysis::StepPairs>> pairs_;
  std::map<std::int32_t, std::int32_t> streams_;  // of B: the one of A with the same operations
  std::int32_t step_ = -1;
  Rank rank_ = -1;
  std::vector<Block> blocks_;
  float below_memory_ = 0;                   // px of legends and tables, in the last frame
  std::array<bool, op_class_count> seen_{};  // the colours that are shown
  const analysis::ComparedOp* hovered_ = nullptr;
};

}  // namespace tessera::inspector
