// SPDX-License-Identifier: Apache-2.0
// The schedule of ZeRO-3. Files: making it in zero3_setup.cpp, host calls in zero3_engine.cpp, what
// modules need in parameter_fetch.cpp, gathering in parameter_gather.cpp, gradients in
// gradient_partition.cpp, what modules need of others in external_parameters.cpp, modules that are
// fetched as a whole in leaf_modules.cpp, the optimizer step in zero3_step.cpp.
#pragma once

#include <array>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "engine/offload/module_trace.h"
#include "engine/shard/engine_base.h"
#include "tessera/zero3.h"

namespace tessera {

/// One parameter. Invalid ids mean "does not exist now".
struct OnDemandParameter {
  enum class State : std::uint8_t { not_available, in_flight, available };
  ParameterId id;
  Held held;  // the float32 partition
  Numel numel{};
  Numel partition{};
  bool trained = true;
  bool persistent = false;
  State state = State::not_available;
  std::set<ModuleId> active;  // modules that need it now
  bool dangling = false;      // a module returned it: stays until the step
  BufferId cast;              // the partition in param_dtype, if that is another
  BufferId full;              // padded; from the gather on, or from its end
  BufferId gradient;          // of this backward pass
  View bucketed;              // where the gradient is while it waits for its reduction
  bool reduced = false;       // in this backward pass, or waits for it
  Numel place{};              // in the buffer of gradient partitions
  bool has_gradient = false;  // there
};

/// One all_gather of several parameters, until all of them were waited for.
struct Gather {
  std::int32_t number = 0;
  std::vector<ParameterId> parameters;  // ascending
  Numel partition{};                    // of all
  BufferId flat;                        // none: the parameters' own buffers
  EventId gathered;
  EventId done;  // and split, if it was coalesced
  bool complete = false;
};

class Zero3Engine final : public EngineBase, public Zero3 {
 public:
  Zero3Engine(Runtime& runtime, const Model& model, const Zero3Options& options);
  Status setup();

  Status next_forward(const ForwardPass& pass) override;
  Status begin_forward() override;
  Status pre_forward(ModuleId module) override;
  Status post_forward(ModuleId module) override;
  Status begin_backward() override;
  Status pre_backward(ModuleId module) override;
  Status grad_ready(ParameterId parameter) override;
  Status post_backward(ModuleId module) override;
  Status end_backward() override;
  Status compute(const ModuleWork& work) override;
  Status initialise(const std::function<float(ParameterId, Numel)>& value) override;
  void set_requires_gradient_sync(bool sync) override { asked_for_no_sync_ |= !sync; }
  std::vector<UnitInfo> units() const override;
  std::vector<std::string> warnings() const override;

  Status register_external_parameter(ModuleId module, ParameterId parameter) override;
  Status unregister_external_parameter(ModuleId module, ParameterId parameter) override;
  Status touch(ParameterId parameter) override;
  Status return_parameter(ParameterId parameter) override;
  std::vector<PartitionedParameter> parameters() const override;

 private:
  using State = OnDemandParameter::State;

  // One per mode of the model, as in DeepSpeed.
  struct Coordinator {
    ModuleTrace trace;
    std::map<ParameterId, std::shared_ptr<Gather>> in_flight;
    Numel available{};  // of gathered parameters; reset with the trace, whatever is left
  };

  Result<View> parameter_view(ParameterId id) override;
  Result<View> gradient_view(ParameterId id) override;
  std::vector<Held*> held() override;
  Index shard_index(Rank rank) const override { return static_cast<Index>(rank); }
  ShardGroups shard_groups() const override;
  Status free_gradients(EventId stepped) override;
  std::vector<StreamId> side_streams() const override { return {all_gather_, reduce_, nccl_}; }
  Status finish_gathers() override;

  // zero3_setup.cpp
  Status check_options() const;
  Status create_streams_and_groups();
  Status assign_modules();
  Status find_leaf_modules();
  Status add_parameter(ParameterId id);
  void mark_persistent();
  void form_sub_groups();
  Status allocate_gradients();

  OnDemandParameter& at(ParameterId id) { return parameters_[index(id)]; }
  const OnDemandParameter& at(ParameterId id) const { return parameters_[index(id)]; }
  static std::size_t index(ParameterId id) { return static_cast<std::size_t>(id.value); }
  static std::size_t index(ModuleId id) { return static_cast<std::size_t>(id.value); }
  Coordinator& coordinator() { return coordinators_[use_ == ForwardPass::Use::evaluate ? 1 : 0]; }
  DType param_dtype() const { return options_.param_dtype; }
  DType reduce_dtype() const { return options_.reduce_dtype.value_or(options_.param_dtype); }
  bool mixed() const { return param_dtype() != DType::float32; }
  std::string_view name(const OnDemandParameter& p) const { return model_.parameter(p.id).name; }

  // Marks of a module or a parameter.
  Result<EventId> note(std::string_view unit, std::string_view what, Mark mark,
                       Reason reason = Reason::none, StreamId stream = {});
  Result<EventId> note(const OnDemandParameter& p, Mark mark, Reason reason = Reason::none,
                       StreamId stream = {});
  Status note(ModuleId module, Mark::Kind kind);

  // external_parameters.cpp
  bool known(ParameterId id) const { return id.valid() && index(id) < parameters_.size(); }
  bool needed_by(ModuleId module, ParameterId id) const;
  bool external_to(ModuleId module, ParameterId id) const;
  void add_external(ModuleId module, ParameterId id);
  Status leave(ModuleId module);
  Status take_over(ModuleId from, ParameterId id);

  // leaf_modules.cpp
  /// The module that fetches for `module`: itself, or the leaf module around it.
  bool inside_leaf(ModuleId module) const { return leaf_of_[index(module)] != module; }
  Status fill_missing_gradients(ModuleId leaf);

  // parameter_fetch.cpp
  Status fetch(ModuleId module);
  Status wait_for(ModuleId module);
  Status arrive(OnDemandParameter& p);
  Status gather_ahead(ModuleId module);
  Status release_module(ModuleId module);
  Status release_parameter(OnDemandParameter& p);
  Status reset_trace();
  Status release_all();

  // parameter_gather.cpp
  View partition_of(const OnDemandParameter& p) const;
  Status gather(std::vector<ParameterId> missing, Reason reason);
  Status begin(Gather& gather, const Cause& why);
  Status begin_coalesced(Gather& gather, const Cause& why);
  Status finish(Gather& gather);
  Status split(Gather& gather);
  Status allocate_full(OnDemandParameter& p, StreamId stream, const Cause& why);
  Status gather_persistent();
  Status gather_now(const std::vector<ParameterId>& missing, Reason reason);
  Status cast_partitions(const std::vector<Held*>& changed);

  // gradient_partition.cpp
  Status add_to_bucket(OnDemandParameter& p);
  Status reduce_bucket();
  Result<View> pack(const std::vector<OnDemandParameter*>& bucket, Numel partition);
  Status scatter(const std::vector<OnDemandParameter*>& bucket, const View& packed,
                 Numel partition);
  Status keep(const std::vector<OnDemandParameter*>& bucket, const View& scattered);
  Status finish_reductions();

  // zero3_step.cpp
  Status before_step() override { return release_all(); }
  std::vector<std::vector<Held*>> step_groups() override;
  Status after_group(std::size_t group) override;
  Status after_step() override;

  const Zero3Options options_;
  const Index ranks_;
  std::vector<OnDemandParameter> parameters_;  // by ParameterId
  ModuleTrace::Needs needs_;                   // by ModuleId, what was registered included
  ModuleTrace::Needs own_needs_;               // by ModuleId, without it
  std::vector<ModuleId> leaf_of_;              // by ModuleId
  std::vector<bool> leaf_;                     // by ModuleId
  std::vector<std::vector<ParameterId>> sub_groups_;
  std::array<Coordinator, 2> coordinators_;  // training, evaluation
  CommunicatorId world_;
  StreamId all_gather_, reduce_, nccl_;

  ForwardPass::Use next_use_ = ForwardPass::Use::train;
  ForwardPass::Use use_ = ForwardPass::Use::train;  // of the pass that runs, or ran last
  std::vector<ModuleId> running_;                   // in forward: from the root down
  std::vector<ParameterId> returned_;               // by the module that runs
  bool asked_for_no_sync_ = false;
  bool casts_are_old_ = true;  // somebody else wrote the partitions
  std::int32_t gathers_ = 0;
  EventId freed_;  // the youngest free that gathers do not follow yet
  std::deque<EventId> ongoing_fetches_;
  bool gradient_flows_ = false;            // through what runs next in forward
  std::vector<std::vector<bool>> inputs_;  // by ModuleId, a stack: a visit's input needs a gradient
  std::vector<int> gradients_remaining_;   // by ModuleId: post_backward hooks before it frees

  BufferId partitions_;  // of all gradients
  BufferId bucket_buffer_;
  std::vector<ParameterId> bucket_;
  Numel bucket_numel_{};
  std::deque<EventId> ongoing_reductions_;
};

}  // namespace tessera
