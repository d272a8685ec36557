// SPDX-License-Identifier: Apache-2.0
// The order in which a step visits modules, and what follows from it: what to gather ahead and what
// to keep (deepspeed PartitionedParameterCoordinator, ZeRoTraceMode).
//
// The idea: no operations here. One visit has one step number, forward and backward alike.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "tessera/model.h"
#include "tessera/status.h"

namespace tessera {

class ModuleTrace {
 public:
  enum class Mode : std::uint8_t { record, complete, invalid };
  struct Use {
    ParameterId parameter;
    std::int32_t step = 0;
  };
  /// By ModuleId, each in ascending order.
  using Needs = std::vector<std::vector<ParameterId>>;

  /// Both must outlive the trace; `needs` may change between passes.
  ModuleTrace(const Model& model, const Needs& needs, Mode first = Mode::record)
      : model_(model), needs_(needs), mode_(first) {}

  Mode mode() const { return mode_; }
  bool complete() const { return mode_ == Mode::complete; }
  /// Visits since the last reset.
  std::int32_t step() const { return step_; }
  const std::vector<Use>& uses() const { return uses_; }

  /// `module` is visited now. False: something else was recorded, the trace is invalid.
  bool visit(ModuleId module);
  void advance() { ++step_; }

  /// complete: what the visit needs leaves the queue. Fails: invalid_argument ("tracing error").
  Status take(ModuleId module);
  /// complete: what to gather ahead, of those that are `missing`, until there are `budget` elements
  /// or more. What is not missing counts as fetched for its later use.
  /// Stops before what is `unread`: on NVMe, and not on its way.
  std::vector<ParameterId> ahead(Numel budget, const std::function<bool(ParameterId)>& missing,
                                 const std::function<bool(ParameterId)>& unread = {});
  /// Uses not fetched yet.
  const std::deque<Use>& queue() const { return queue_; }
  /// The parameters that may be freed after `module`. As in the original the first answer for a
  /// step is kept, even when the trace was recorded again since.
  const std::vector<ParameterId>& releasable(ModuleId module, Numel reuse_distance,
                                             const std::function<bool(ParameterId)>& persistent);

  /// A pass is over: a recorded trace is complete, an invalid one is recorded anew.
  void reset();

 private:
  void invalidate();
  void index_uses();
  bool fetched_later(ParameterId parameter, std::int32_t step) const;
  void find_releasable(ModuleId module, Numel reuse_distance, std::vector<ParameterId>& out) const;

  const Model& model_;
  const Needs& needs_;
  Mode mode_;
  std::int32_t step_ = 0;
  std::vector<ModuleId> modules_;                    // of the trace
  std::vector<Use> uses_;                            // of the complete trace
  std::vector<Numel> used_before_;                   // by visit: elements of all uses before it
  std::vector<std::vector<std::int32_t>> visits_;    // by ParameterId, of its uses, ascending
  std::deque<Use> queue_;                            // uses not fetched yet
  std::map<ParameterId, std::int32_t> fetched_for_;  // the youngest use that was fetched
  std::map<std::pair<ModuleId, std::int32_t>, std::vector<ParameterId>> releasable_;
};

}  // namespace tessera
