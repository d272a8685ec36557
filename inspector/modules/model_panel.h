// SPDX-License-Identifier: Apache-2.0
// The modules as a tree on the axis of time: what each does, when its parameters are gathered, and
// what it holds at a moment.
#pragma once

#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "inspector/modules/module_memory.h"
#include "inspector/modules/module_strips.h"
#include "inspector/modules/module_tree.h"
#include "inspector/widgets/legend.h"
#include "inspector/widgets/panel.h"

namespace tessera::inspector {

/// ns that a node and those below it take in a step.
struct NodeTimes {
  Time compute = 0, communication = 0;
};

/// A row of the tree, as columns of numbers need it.
struct ModuleRow {
  HeldBytes held{};
  NodeTimes times;
  const char* state = "";
};

class ModelPanel final : public Panel {
 public:
  /// The moment is that under the mouse, or the one that was clicked, or the highest in view.
  void draw(Surface& ui, TraceModel& model, ViewState& state, const Box& box) override;
  /// What is open stays open.
  bool renew(const TraceModel& model) override;

 private:
  struct Places;
  void find_out(TraceModel& model, const ViewState& state);
  void find_memory(TraceModel& model, Time moment);
  void find_times(TraceModel& model, std::int32_t step);
  void find_states(TraceModel& model, Time moment);
  Time moment_of(const ViewState& state) const;
  std::vector<int> shown_nodes() const;
  float draw_head(Surface& ui, TraceModel& model, ViewState& state, const Box& box, Time moment);
  void draw_rows(Surface& ui, TraceModel& model, ViewState& state, const Places& places);
  void draw_row(const Surface& ui, ViewState& state, const Places& places, int node, float top);
  std::vector<LegendEntry> seen_colours(const Surface& ui, const TraceModel& model) const;
  void use_mouse(TraceModel& model, ViewState& state, const Places& places);

  std::unique_ptr<ModuleTree> tree_;
  std::unique_ptr<ModuleMemory> memory_;  // nullptr: the rank has no samples
  const MemoryPyramid* pyramid_ = nullptr;
  std::int64_t memory_serial_ = 0;
  std::pair<Time, Time> memory_reach_{0, 0};  // that memory_ is about
  Rank rank_ = -1;                            // of what is above
  std::set<std::string> opened_;              // paths, of a tree that is made again
  std::vector<bool> open_;
  std::vector<NodeTimes> times_;
  std::int32_t step_ = -1;  // of times_
  std::vector<HeldBytes> held_;
  std::vector<const char*> states_;  // by node; nullptr: as its memory says
  std::optional<Time> pinned_;
  ModuleStrips strips_;
};

}  // namespace tessera::inspector
