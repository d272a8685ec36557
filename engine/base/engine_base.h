// SPDX-License-Identifier: Apache-2.0
// What all schemes share: issuing operations with their cause, the stages of a step, running
// modules, their activations, and the optimizer on whatever a rank holds.
//
// The idea: a scheme only says where a parameter can be read (`parameter_view`), where its gradient
// goes (`gradient_view`) and what a rank keeps of it (`held`).
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "engine/base/issuer.h"
#include "engine/base/param_groups.h"
#include "engine/base/shard_map.h"
#include "engine/wrap/unit_assignment.h"
#include "tessera/engine.h"
#include "tessera/wrap.h"

namespace tessera {

using Held = ParamShard;

class EngineBase : public virtual Engine, protected Issuer {
 public:
  Status next_forward(const ForwardPass& pass) override;
  // The hooks of a scheme that has nothing to do for a module.
  Status pre_forward(ModuleId module) override;
  Status post_forward(ModuleId module) override;
  Status pre_backward(ModuleId module) override;
  Status post_backward(ModuleId module) override;
  Status recompute_begin(ModuleId module) override;
  Status recompute_end(ModuleId module) override;
  Status compute(const ModuleWork& work) override;
  Status keep_activations(const ModuleWork& work) override;
  Status restore_activations(const ModuleWork& work) override;
  Status free_activations(ModuleId module) override;
  Status step(const AdamOptions& options) override;
  Status set_param_groups(const std::vector<ParamGroup>& groups) override;
  Status add_param_group(const ParamGroup& group) override;
  Status set_adam(std::size_t group, const AdamOverrides& adam) override;
  const std::vector<ParamGroup>& param_groups() const override { return param_groups_.all(); }
  StreamId compute_stream() const override { return Issuer::compute_stream(); }
  Status clip_grad_norm(float max_norm, double norm_type,
                        const std::function<void(Rank, float)>& total) override;
  void set_requires_gradient_sync(bool sync) override { sync_ = sync; }
  Status initialise(const std::function<float(ParameterId, Numel)>& value) override;
  Status inspect_shards(
      ParameterId parameter,
      const std::function<void(Rank, Numel, std::span<const float>)>& read) override;

 protected:
  enum class Stage : std::uint8_t { idle, forward, backward, summoned };

  EngineBase(Runtime& runtime, const Model& model);
  /// Of those ranks alone.
  EngineBase(Runtime& runtime, const Model& model, const RankSet& ranks);

  /// What a scheme knows of its parameters. Views are unsharded; they fail while there is nothing.
  virtual Result<View> parameter_view(ParameterId parameter) = 0;
  virtual Result<View> gradient_view(ParameterId parameter) = 0;  // allocates at first
  /// Everything a rank holds, in the order of units.
  virtual std::vector<Held*> held() = 0;
  /// The place of a rank among those that hold different shards.
  virtual Index shard_index(Rank rank) const = 0;
  /// Which ranks together hold every parameter once.
  virtual ShardGroups shard_groups() const = 0;
  /// The optimizer has read the gradients (zero_grad(set_to_none=True)).
  virtual Status free_gradients(EventId stepped) = 0;
  /// Gradients of the step will be read now: for a norm, a scale, or by the optimizer.
  virtual Status settle_gradients() { return {}; }
  /// The optimizer has changed values, perhaps not on all ranks.
  virtual Status share_stepped() { return {}; }
  /// The first rank of each set of ranks that trains a model of its own.
  virtual RankSet first_ranks() const { return everyone_.intersect(RankSet::single(0)); }
  /// Which ranks together have every gradient once.
  virtual CommunicatorId norm_group() const { return shard_groups().shard; }
  /// Whether clip_grad_norm counts its gradient; all are scaled.
  virtual bool in_norm(const Held& /*held*/) const { return true; }

  // A step of the optimizer in parts: one operation each, in this order. Local parameters come
  // last.
  virtual Status before_step() { return {}; }
  virtual std::vector<std::vector<Held*>> step_groups() { return {held()}; }
  virtual Status before_group(std::size_t /*group*/) { return {}; }
  virtual Status after_group(std::size_t /*group*/) { return {}; }
  virtual Status after_step() { return {}; }

  /// Whether training along another order than Model::forward is nothing special.
  virtual bool runs_any_graph() const { return false; }

  /// Before they do: nothing waits for a step.
  virtual Status expect_no_gradients(const char* call);
  /// The optimizer's groups have changed.
  virtual Status on_param_groups() { return {}; }
  /// The optimizer steps it: it is trained and in a group.
  bool steps(const ShardMap::Segment& segment) const;
  bool steps(const Held& held) const;

  /// Units from a plan, or else from paths; ignored parameters become local ones.
  Status assign(const std::vector<std::string>& units, const std::optional<WrapPlan>& plan,
                DType local_dtype);
  const UnitOverrides& overrides(std::size_t unit) const { return overrides_[unit]; }
  /// Gradients of local parameters: every rank keeps its own. At the end of a backward pass.
  Status accumulate_locals();

  friend class ScaledGradients;
  friend class OptimizerStateOps;
  friend class EngineState;
  friend class Snapshot;
  /// The place, in its group of replicas, of the rank that alone steps `held`.
  virtual Index owner_place(const Held& /*held*/) const { return 0; }
  /// The place of a rank among those that hold the same.
  virtual Index replica_index(Rank rank) const {
    return static_cast<Index>(rank) / shard_groups().size;
  }
  /// The step as it is when its gradients overflowed: they are freed, nothing else changes.
  virtual Status skip_step();

  // For summon_full_params (engine/summon/), besides what it takes from the functions here.
  friend class SummonOps;
  virtual std::vector<StreamId> side_streams() const = 0;  // all but the compute stream
  /// Whoever looks at buffers of Helds, or writes them, outside of a step calls this before.
  /// `moments`: also of what was never stepped.
  virtual Status hold_all(bool /*moments*/) { return {}; }
  /// Values will be written outside of a step, by each rank its own.
  virtual Status values_change() { return {}; }
  /// Ends gathers that are under way, so that `held` shows what is unsharded.
  virtual Status finish_gathers() { return {}; }
  /// A limiter: before a unit is gathered, and after a gathered unit was freed.
  virtual Status before_gather() { return {}; }
  virtual Status after_free(std::string_view /*unit*/) { return {}; }

  Status expect(Stage stage, const char* call) const;
  /// At the beginning of a forward pass: it is what `next_forward` said.
  void begin_pass() { pass_ = std::exchange(next_, ForwardPass{}); }
  bool trains() const { return pass_.use == ForwardPass::Use::train; }
  /// A pass without backward ends where its root does.
  bool ends_pass(ModuleId left) const { return !trains() && left == ModuleId{0}; }
  static Status ready_twice(std::string_view parameter);
  /// The parameters that the work concerns.
  const std::vector<ParameterId>& parameters_of(const ModuleWork& work) const;
  bool recomputing() const { return recomputed_.valid(); }
  bool recomputes(ModuleId module) const { return recomputed_ == module; }
  Status enter(Stage stage, Phase phase);  // and begins the phase
  std::string_view unit_name(std::size_t unit) const;
  std::string_view unit_name_of(ModuleId module) const;
  /// The unit whose module this is, or -1: the module is part of one.
  int unit_at(ModuleId module) const;
  Status initialise_held();

  UnitAssignment assignment_;
  ParamGroups param_groups_;
  std::optional<std::int32_t> only_optimizer_;  // that steps now; none: all

  ForwardPass pass_;  // that runs, or ran last
  Stage stage_ = Stage::idle;
  bool sync_ = true;

 private:
  // A parameter that is in no unit: whole on every rank, never reduced.
  struct Local {
    ParameterId id;
    Held held;
    BufferId fresh;     // gradient of this backward pass
    BufferId gradient;  // of all since the last step
  };

  std::vector<Held*> all_held();
  std::vector<Held*> locals_held();
  Index index_in(const Held& held, Rank rank) const { return held.whole ? 0 : shard_index(rank); }
  Local* local(ParameterId id);
  Status add_local(ParameterId id, DType dtype);
  Result<View> local_gradient(Local& local);
  Status free_local_gradients(EventId stepped);
  Status allocate_optimizer_state();
  Compute work_on_held() const;  // empty; views of Helds know the rank's index
  Compute local_norm(const std::vector<Held*>& held, const View& into, double norm_type);
  Result<EventId> drop_gradients();
  void count_steps(const std::vector<Held*>& stepped);
  Compute adam_work(const std::vector<Held*>& group, const AdamOptions& options);
  Status add_views(const ModuleWork& work, Compute& what);
  void add_gradient(const View& gradient, Compute& what);
  Status keeps_none(ModuleId module) const;
  Cause of_module(Cause cause, const ModuleWork& work) const;

  ForwardPass next_;                      // begin_pass takes it
  ModuleId recomputed_;                   // between recompute_begin and recompute_end
  std::vector<UnitOverrides> overrides_;  // by unit
  std::vector<Local> locals_;
  std::vector<std::vector<BufferId>> activations_;  // by ModuleId: a stack
};

}  // namespace tessera
