// SPDX-License-Identifier: Apache-2.0
// The optimizer on whatever a rank holds: groups of parameters, AdamW, clipping, and steps that are
// skipped because gradients overflowed.
//
// The idea: to the optimizer a flat parameter, a row shard and a whole parameter are alike, a
// ParamShard. What a scheme has to do around a step it does in StepHooks. Files: steps and groups
// in optimizer_step.cpp, AdamW and its state in sharded_adam.cpp, norms in clip_grad_norm.cpp.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "engine/base/beta_power.h"
#include "engine/base/param_groups.h"
#include "engine/base/sharded_state.h"

namespace tessera {

/// A scheme acts here when its gradients are used. The step comes in parts: one operation each, in
/// this order; parameters that are in no unit are stepped with the last.
class StepHooks {
 public:
  virtual ~StepHooks() = default;

  /// Gradients of the step will be read now: for a norm, a scale, or by the optimizer.
  virtual Status complete_gradients() { return {}; }
  virtual Status before_step() { return {}; }
  virtual std::vector<std::vector<ParamShard*>> step_groups() = 0;
  virtual Status before_group(std::size_t /*group*/) { return {}; }
  virtual Status after_group(std::size_t /*group*/) { return {}; }
  /// The optimizer has read the gradients (zero_grad(set_to_none=True)).
  virtual Status free_gradients(EventId stepped) = 0;
  /// The optimizer has changed values, perhaps not on all ranks.
  virtual Status share_stepped() { return {}; }
  virtual Status after_step() { return {}; }

  /// Which ranks together have every gradient once.
  virtual CommunicatorId norm_group() const = 0;
  /// Whether clip_grad_norm counts its gradient; all are scaled.
  virtual bool in_norm(const ParamShard& /*shard*/) const { return true; }

  /// Before param groups change: nothing waits for a step.
  virtual Status expect_no_gradients(const char* call) = 0;
  /// The optimizer's groups have changed.
  virtual Status on_param_groups() { return {}; }
};

class OptimizerStep {
 public:
  /// All three must outlive it.
  OptimizerStep(Issuer& issuer, ShardedState& state, StepHooks& scheme);

  const ParamGroups& groups() const { return groups_; }
  /// As in Engine.
  Status set_groups(const std::vector<ParamGroup>& groups);
  Status add_group(const ParamGroup& group);
  Status set_adam(std::size_t group, const AdamOverrides& adam) {
    return groups_.set_adam(group, adam);
  }
  /// How moments are kept that come into being before a step says so. Fails: not_supported, if
  /// they would be none that a step changes.
  Status keep_states_as(std::optional<StateType> type);
  void set_steps_taken(ParameterId id, std::int64_t steps) { groups_.set_steps_taken(id, steps); }
  /// Only the groups of one optimizer are stepped; none: all.
  void select(std::optional<std::int32_t> optimizer) { selected_ = optimizer; }
  bool selects(std::int32_t optimizer) const { return selected_.value_or(optimizer) == optimizer; }
  /// The optimizer steps it: it is trained and in a group that is selected.
  bool steps(const ShardMap::Segment& segment) const;
  bool steps(const ParamShard& shard) const;
  /// Fails: invalid_argument, naming `call` and a parameter whose gradient waits for its step.
  Status expect_no_gradients(const char* call);

  /// The moments exist from now on.
  Status begin(const AdamOptions& options);
  Status step(const AdamOptions& options);
  /// The step as it is when its gradients overflowed: they are freed, nothing else changes.
  Status skip();
  Status clip(float max_norm, double norm_type, const std::function<void(Rank, float)>& total);
  /// `clip` waits for the norm from now on, and says here whether it was finite.
  void watch_norm(bool* finite) { norm_is_finite_ = finite; }
  Status complete_gradients() { return scheme_.complete_gradients(); }

  /// The moments, as zeros, of everything that is stepped and has none yet.
  Status allocate_moments(const AdamOptions& options);
  /// The same where no step is under way: AdamW's.
  Status allocate_moments() { return allocate_moments({.state_type = state_type_}); }
  /// Whoever reads, loads or saves states knows AdamW's. Fails: not_supported, if others are kept.
  Status expect_adam_states() const;
  /// The number of multiplications that powers of beta have cost so far.
  std::int64_t beta_multiplications() const;

 private:
  std::vector<std::vector<ParamShard*>> groups_to_step();
  Result<EventId> drop_unstepped_gradients();
  Status free_gradients(EventId stepped);
  void count_steps(const std::vector<ParamShard*>& stepped);
  Status check_states(const AdamOptions& options) const;
  AdamNumbers adam_numbers(ParameterId parameter, const AdamOptions& step);
  Compute adam_work(const std::vector<ParamShard*>& shards, const AdamOptions& options);
  Compute local_norm(const std::vector<ParamShard*>& shards, const View& into, double norm_type);

  struct Powers {
    BetaPower beta1, beta2;
  };

  Issuer& issuer_;
  ShardedState& state_;
  StepHooks& scheme_;
  ParamGroups groups_;
  std::optional<std::int32_t> selected_;
  std::optional<StateType> state_type_;
  std::vector<Powers> powers_;  // by ParameterId
  bool* norm_is_finite_ = nullptr;
  bool begun_ = false;
};

}  // namespace tessera
