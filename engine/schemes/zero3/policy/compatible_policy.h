// SPDX-License-Identifier: Apache-2.0
// The policy of DeepSpeed 0.9.0, fault by fault (deepspeed PartitionedParameterCoordinator).
//
// The idea: the first step records, later steps replay; counts are of elements, and limits are only
// asked before something more is gathered ahead.
#pragma once

#include <array>
#include <deque>
#include <vector>

#include "engine/schemes/zero3/policy/fetch_policy.h"
#include "engine/schemes/zero3/policy/module_trace.h"

namespace tessera {

class CompatiblePolicy : public FetchPolicy {
 public:
  explicit CompatiblePolicy(const PolicyGround& ground,
                            ModuleTrace::Mode first = ModuleTrace::Mode::record);

  Status begin_forward(const ForwardPass& pass) override;
  Status pre_forward(ModuleId module, bool recomputing) override;
  void ran(ModuleId module, bool trains) override;
  Status post_forward(ModuleId module) override;
  Status touch(ModuleId module, OnDemandParameter& p) override;
  Status pre_backward(ModuleId module) override;
  Status post_backward(ModuleId module) override;
  Status end_pass(bool dropped) override;
  Status before_step() override;
  Status after_step() override;
  Status values_changed() override;

 protected:
  struct Coordinator {
    ModuleTrace trace;
    Numel available{};  // of gathered parameters; reset with the trace, whatever is left
  };

  bool training() const { return training_; }
  // One per mode of the model.
  virtual Coordinator& coordinator() { return coordinators_[training_ ? 0 : 1]; }
  // Something else than was recorded runs.
  virtual Status mismatched() { return {}; }
  virtual Status release_after_backward(ModuleId module) { return release(module); }
  virtual bool reads_ahead() const;

  Coordinator& first_coordinator() { return coordinators_[0]; }
  // A pass is over: what was recorded may be complete. `when` is the mark's number.
  Status start_over(Coordinator& c, std::int32_t when);
  Status release(OnDemandParameter& p);

 private:
  static std::size_t index(ModuleId id) { return id.index(); }

  void explain(const OnDemandParameter& p, LiveParameter& live) const override;
  Status fetch(ModuleId module);
  Status gather(std::vector<ParameterId> missing, Reason reason);
  Status wait_for(ModuleId module);
  Status arrive(OnDemandParameter& p);
  Status gather_ahead(ModuleId module);
  Status read_ahead();
  Status release(ModuleId module);
  Status check_none_flies();

  std::array<Coordinator, 2> coordinators_;  // training, evaluation
  bool training_ = true;
  std::deque<EventId> ongoing_fetches_;
  bool gradient_flows_ = false;            // through what runs next in forward
  std::vector<std::vector<bool>> inputs_;  // by ModuleId, a stack: a visit's input needs a gradient
  std::vector<int> gradients_remaining_;   // by ModuleId: post_backward hooks before it frees
};

}  // namespace tessera
