// SPDX-License-Identifier: Apache-2.0
// An engine of any scheme is made of these parts: an issuer, the order of calls, units,
// activations, local parameters, and the optimizer on whatever a rank holds.
//
// The idea: a scheme only says where a parameter can be read (`parameter_view`), where its gradient
// goes (`gradient_view`), what a rank keeps of it (`shards`) and what happens around a step
// (`StepHooks`). The rest of it is a schedule: what is issued at which host call.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "engine/base/activations.h"
#include "engine/base/call_order.h"
#include "engine/base/issuer.h"
#include "engine/base/local_parameters.h"
#include "engine/base/optimizer_step.h"
#include "engine/base/sharded_state.h"
#include "engine/base/unit_table.h"
#include "tessera/engine.h"
#include "tessera/wrap.h"

namespace tessera {

class EngineBase : public virtual Engine,
                   protected ShardedState,
                   protected StepHooks,
                   protected Issuer,
                   protected CallOrder,
                   protected UnitTable {
 public:
  Status next_forward(const ForwardPass& pass) override;
  // The hooks of a scheme that has nothing to do for a module.
  Status pre_forward(ModuleId module) override;
  Status post_forward(ModuleId module) override;
  Status pre_backward(ModuleId module) override;
  Status post_backward(ModuleId module) override;
  Status recompute_begin(ModuleId module) override { return begin_recompute(module); }
  Status recompute_end(ModuleId module) override { return end_recompute(module); }
  void set_requires_gradient_sync(bool sync) override { sync_ = sync; }

  Status compute(const ModuleWork& work) override;
  Status keep_activations(const ModuleWork& work) override;
  Status restore_activations(const ModuleWork& work) override;
  Status free_activations(ModuleId module) override;
  StreamId compute_stream() const override { return Issuer::compute_stream(); }

  Status step(const AdamOptions& options) override { return optimizer_.step(options); }
  Status set_param_groups(const std::vector<ParamGroup>& groups) override {
    return optimizer_.set_groups(groups);
  }
  Status add_param_group(const ParamGroup& group) override { return optimizer_.add_group(group); }
  Status set_adam(std::size_t group, const AdamOverrides& adam) override {
    return optimizer_.set_adam(group, adam);
  }
  const std::vector<ParamGroup>& param_groups() const override { return optimizer_.groups().all(); }
  Status clip_grad_norm(float max_norm, double norm_type,
                        const std::function<void(Rank, float)>& total) override {
    return optimizer_.clip(max_norm, norm_type, total);
  }

  Status initialise(const std::function<float(ParameterId, Numel)>& value) override {
    return write_values(*this, value);
  }
  Status inspect_shards(
      ParameterId parameter,
      const std::function<void(Rank, Numel, std::span<const float>)>& read) override {
    return read_values(*this, parameter, read);
  }
  ShardedState* sharded_state() override { return this; }

 protected:
  /// An engine of `ranks` alone; none: of the whole world.
  EngineBase(Runtime& runtime, const Model& model, const std::optional<RankSet>& ranks = {});

  /// A parameter where bodies read it. Views are unsharded; they fail while there is nothing.
  virtual Result<View> parameter_view(ParameterId parameter) = 0;
  virtual Result<View> gradient_view(ParameterId parameter) = 0;  // allocates at first
  /// Whether training along another order than Model::forward is nothing special.
  virtual bool runs_any_graph() const { return false; }

  // The part of ShardedState and StepHooks that most schemes agree on.
  EngineParts parts() override { return {*this, *this, *this, optimizer_, locals_}; }
  RankSet first_ranks() const override { return everyone_.intersect(RankSet::single(0)); }
  std::vector<std::vector<ParamShard*>> step_groups() override { return {shards()}; }
  CommunicatorId norm_group() const override { return shard_groups().shard; }
  Status expect_no_gradients(const char* call) override {
    return optimizer_.expect_no_gradients(call);
  }

  /// Units from a plan, or else from paths; ignored parameters become local ones.
  Status assign(const std::vector<std::string>& units, const std::optional<WrapPlan>& plan,
                DType local_dtype);
  /// From one stage to the next, which begins `phase`.
  Status enter(Stage stage, Phase phase);

  Activations activations_;
  LocalParameters locals_;
  OptimizerStep optimizer_;
  bool sync_ = true;     // as it was set last
  bool reduces_ = true;  // this backward pass: what sync_ was when it began

 private:
  Status add_views(const ModuleWork& work, Compute& what);
  Cause cause_of(const ModuleWork& work, Reason reason) const;
};

}  // namespace tessera
