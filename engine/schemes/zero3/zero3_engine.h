// SPDX-License-Identifier: Apache-2.0
// The schedule of ZeRO-3. Files: making it in zero3_setup.cpp, host calls in zero3_engine.cpp, what
// a policy decides in parameter_moves.cpp, gathering in parameter_gather.cpp, gradients in
// gradient_partition.cpp, what modules need of others in external_parameters.cpp, modules that are
// fetched as a whole in leaf_modules.cpp, what is trained in
// trainable.cpp, the optimizer step in zero3_step.cpp.
#pragma once

#include <array>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/runtime/copies_by_route.h"
#include "engine/schemes/zero3/offload/optimizer_swapper.h"
#include "engine/schemes/zero3/offload/parameter_swapper.h"
#include "engine/schemes/zero3/offload/partition_home.h"
#include "engine/schemes/zero3/policy/fetch_policy.h"
#include "engine/schemes/zero3/zero_plus_plus/block_quantizer.h"
#include "tessera/zero3.h"

namespace tessera {

class Zero3Engine final : public EngineBase, public Zero3, private ParameterMover {
 public:
  Zero3Engine(Runtime& runtime, const Model& model, const Zero3Options& options);
  Status setup();

  Status begin_forward() override;
  Status pre_forward(ModuleId module) override;
  Status post_forward(ModuleId module) override;
  Status begin_backward() override;
  Status pre_backward(ModuleId module) override;
  Status grad_ready(ParameterId parameter) override;
  Status post_backward(ModuleId module) override;
  Status end_backward() override;
  Status compute(const ModuleWork& work) override;
  Status step(const AdamOptions& options) override;
  void set_requires_gradient_sync(bool sync) override { asked_for_no_sync_ |= !sync; }
  std::vector<UnitInfo> units() const override;
  std::vector<std::string> warnings() const override;

  Status register_external_parameter(ModuleId module, ParameterId parameter) override;
  Status unregister_external_parameter(ModuleId module, ParameterId parameter) override;
  Status touch(ParameterId parameter) override;
  Status return_parameter(ParameterId parameter) override;
  Status partition_all_parameters() override;
  std::vector<PartitionedParameter> parameters() const override;
  std::vector<LiveParameter> live() const override { return policy_->live(); }
  std::optional<Bytes> live_budget() const override { return policy_->budget(); }

 private:
  using State = OnDemandParameter::State;

  bool runs_any_graph() const override { return true; }
  Result<View> parameter_view(ParameterId id) override;
  Result<View> gradient_view(ParameterId id) override;
  std::vector<Held*> held() override;
  Index shard_index(Rank rank) const override { return static_cast<Index>(rank) % ranks_; }
  ShardGroups shard_groups() const override;
  Status free_gradients(EventId stepped) override;
  std::vector<StreamId> side_streams() const override;
  Status finish_gathers() override;

  Status start_forward();
  Status remember(Status status);

  // zero3_setup.cpp
  Status check_options() const;
  Status check_shard_group() const;
  Status create_streams_and_groups();
  Status create_node_groups();
  Status assign_modules();
  void find_needs();
  Status find_leaf_modules();
  void add_parameter(ParameterId id);
  void mark_persistent();
  void find_homes();
  Status move_states();
  Status allocate_partition(OnDemandParameter& p);
  Status allocate_gradients();
  Result<BufferId> allocate_in(Memory memory, const std::string& name, Bytes bytes,
                               MemoryClass on_device, const Cause& why);

  OnDemandParameter& at(ParameterId id) { return parameters_[index(id)]; }
  const OnDemandParameter& at(ParameterId id) const { return parameters_[index(id)]; }
  static std::size_t index(ParameterId id) { return static_cast<std::size_t>(id.value); }
  static std::size_t index(ModuleId id) { return static_cast<std::size_t>(id.value); }
  DType param_dtype() const { return options_.param_dtype; }
  DType reduce_dtype() const { return options_.reduce_dtype.value_or(options_.param_dtype); }
  bool mixed() const { return param_dtype() != DType::float32; }
  std::string_view name(const OnDemandParameter& p) const { return model_.parameter(p.id).name; }

  // Marks of a module or a parameter.
  Result<EventId> note(std::string_view unit, std::string_view what, Mark mark,
                       Reason reason = Reason::none, StreamId stream = {});
  Result<EventId> note(const OnDemandParameter& p, Mark mark, Reason reason);

  // external_parameters.cpp
  bool known(ParameterId id) const { return id.valid() && index(id) < parameters_.size(); }
  bool needed_by(ModuleId module, ParameterId id) const;
  bool external_to(ModuleId module, ParameterId id) const;
  Status add_need(ModuleId module, ParameterId id) override;
  Status leave(ModuleId module);
  Status take_over(ModuleId from, ParameterId id);

  // leaf_modules.cpp
  bool inside_leaf(ModuleId module) const { return leaf_of_[index(module)] != module; }
  Status leave_leaf(ModuleId leaf);
  Status fill_missing_gradients(ModuleId leaf);
  bool used_outside(ModuleId leaf, ParameterId id) const;

  // For the policy: parameter_moves.cpp.
  const Model& moved_model() const override { return model_; }
  const Needs& needs() const override { return needs_; }
  std::span<OnDemandParameter> moved() override { return parameters_; }
  std::span<const OnDemandParameter> moved() const override { return parameters_; }
  Bytes live_bytes() const override { return live_; }
  Bytes promised() const override { return promised_; }
  Bytes gather_bytes(std::span<const ParameterId> parameters) const override;
  Bytes gathered_bytes(ParameterId parameter) const override;
  Result<bool> arrive(OnDemandParameter& p) override;
  Status drop(OnDemandParameter& p) override;
  Status settle() override;
  bool reads_drive(const OnDemandParameter& p) const override {
    return p.home == Memory::nvme && !swapper_.has(p);
  }
  std::int32_t free_swap_buffers() const override { return swapper_.free_buffers(); }
  Status read_ahead(const std::vector<ParameterId>& next) override;
  Status release_swap_buffer(const OnDemandParameter& p) override {
    return p.home == Memory::nvme ? swapper_.release_buffer(p) : Status{};
  }
  Status hand_over(ModuleId module) override;
  Status hand_over(ModuleId module, std::span<const EventId> arrived) override;
  Status look_at_own(ModuleId module);
  EventId worked() const override { return last_compute(); }
  Status free(OnDemandParameter& p) override;
  Status wait(EventId event) override { return runtime_.wait(event); }
  Status note(ModuleId module, Mark mark) override;
  Status note(const OnDemandParameter& p, Mark mark) override;
  Status note(Mark mark) override;

  // trainable.cpp
  void form_sub_groups();
  Status on_param_groups() override;
  Status refresh_trainable();

  // parameter_gather.cpp
  View partition_of(const OnDemandParameter& p) const;
  View own_slot(const View& full, Numel offset, Numel partition, Numel slot) const;
  struct Part {  // of a gather: a partition and its place there
    ParameterId parameter;
    View from;
    View to;
    Memory home = Memory::device;
  };
  Result<EventId> submit_by_route(StreamId stream, const Cause& why, CommunicatorId index_in,
                                  const std::vector<RoutedBlocks>& pieces);
  Result<EventId> bring(StreamId stream, const Cause& why, CommunicatorId index_in,
                        const std::vector<Part>& parts);
  Status ensure_on_host(const std::vector<ParameterId>& parameters);
  Result<View> gather_input(const OnDemandParameter& p, const View& full, StreamId stream,
                            const Cause& why);
  Status gather(std::vector<ParameterId> missing, Reason reason) override;
  Status begin(Gather& gather, const Cause& why);
  Status begin_coalesced(Gather& gather, const Cause& why);
  Bytes flat_bytes(const Gather& gather) const;
  Status finish(Gather& gather);
  Status split(Gather& gather);
  Status allocate_full(OnDemandParameter& p, StreamId stream, const Cause& why);
  Status gather_persistent() override;
  Status gather_now(const std::vector<ParameterId>& missing, Reason reason) override;

  // partition_update.cpp
  Status enter_update();
  Status cast_partitions(const std::vector<Held*>& changed);
  struct Staged {
    BufferId buffer;
    View view;
  };
  Result<Staged> stage(const OnDemandParameter& p, Memory memory, StreamId stream,
                       const Cause& why);
  Status send(const OnDemandParameter& p, const Cause& why);

  // secondary_parts.cpp
  bool keeps_secondary() const { return options_.plus_plus.secondary_group > 1; }
  void choose_source(Gather& gather) const;
  Numel part_of(const OnDemandParameter& p, const Gather& gather) const {
    return Numel{p.partition.value * ranks_ / gather.parts};
  }
  View source_of(const OnDemandParameter& p, const Gather& gather) const;
  Status keep_secondary(Gather& gather);
  void forget_secondary();

  // quantized_gather.cpp
  Result<EventId> gather_into(Gather& gather, const View& own, const View& full, const Cause& why);
  Result<EventId> gather_codes(Gather& gather, const View& own, const View& full, const Cause& why);
  Status decode(Gather& gather);

  // quantized_reduce.cpp
  struct Codes {
    View codes, scales;
  };
  bool quantizes(const OnDemandParameter& p) const;
  Result<EventId> reduce_scatter(const std::vector<OnDemandParameter*>& bucket, const View& packed,
                                 const View& scattered, const Cause& why);
  Result<EventId> reduce_in_two_hops(const View& packed, const View& scattered, const Cause& why);
  Result<Codes> allocate_codes(const BlockQuantizer& format, std::int64_t rows, StreamId stream,
                               const Cause& why);
  Result<Codes> exchange(const Codes& sent, CommunicatorId group, const BlockQuantizer& format,
                         std::int64_t rows, const Cause& why);
  Status release_codes(const Codes& codes, EventId after);

  // gradient_partition.cpp
  Status reduce_together(std::vector<OnDemandParameter*> bucket);
  Status add_to_bucket(OnDemandParameter& p);
  Status reduce_bucket();
  Result<View> pack(const std::vector<OnDemandParameter*>& bucket, Numel partition);
  Status scatter(const std::vector<OnDemandParameter*>& bucket, const View& packed,
                 Numel partition);
  bool keeps_later(const View& packed) const;
  Result<EventId> keep_reduced();
  Status keep(const std::vector<OnDemandParameter*>& bucket, const View& scattered);
  View gradient_partition(const OnDemandParameter& p) const;
  Status add_on_host(const OnDemandParameter& p, const View& fresh);
  Status finish_reductions();

  // replica_reduce.cpp
  Status settle_gradients() override;
  Status expect_unsettled() const;

  // zero3_step.cpp
  Status before_step() override;
  std::vector<std::vector<Held*>> step_groups() override;
  Status hold_all(bool moments) override { return states_swapper_.hold_all(moments); }
  Status values_change() override;
  std::vector<OnDemandParameter*> members(std::size_t group);
  Status before_group(std::size_t group) override;
  Status after_group(std::size_t group) override;
  Status after_step() override;

  // What the scheme's parts see of this engine.
  class Issued final : public Operations {
   public:
    explicit Issued(Zero3Engine& engine) : engine_(engine) {}
    using Operations::allocate;
    using Operations::submit;
    Cause cause(std::string_view unit, Reason reason) const override {
      return engine_.cause(unit, reason);
    }
    Pass pass() const override;
    bool recomputing() const override { return engine_.recomputing(); }
    std::string_view unit_of(ModuleId module) const override {
      return engine_.unit_name_of(module);
    }
    EventId worked() const override { return engine_.last_compute(); }
    Result<StreamId> create_stream(std::string_view name, StreamRole role) override {
      return engine_.runtime_.create_stream(name, role);
    }
    Result<BufferId> allocate(Allocation request) override;
    Status release(BufferId& buffer, EventId after) override {
      return engine_.release(buffer, after);
    }
    Result<EventId> submit(StreamId stream, const Cause& cause, decltype(Op::what) what,
                           std::span<const EventId> after) override {
      return engine_.submit(stream, cause, std::move(what), after);
    }
    Status wait(EventId event) override { return engine_.runtime_.wait(event); }

   private:
    Zero3Engine& engine_;
  };

  Issued operations_;
  Zero3Facts facts_;
  const Zero3Options options_;
  const Index ranks_;  // that hold all partitions together
  const PartitionHome home_;
  ParameterSwapper swapper_;
  OptimizerSwapper states_swapper_;
  std::vector<OnDemandParameter> parameters_;  // by ParameterId
  Needs needs_;                                // by ModuleId, what was registered included
  Needs own_needs_;                            // by ModuleId, without it
  std::vector<ModuleId> leaf_of_;              // by ModuleId: the leaf module around it, or itself
  std::vector<bool> leaf_;                     // by ModuleId
  std::vector<std::int32_t> leaf_visits_;      // by ModuleId: that have no backward yet
  std::vector<std::vector<ParameterId>> sub_groups_;
  const std::unique_ptr<FetchPolicy> policy_;
  CommunicatorId world_;     // those that hold all partitions together
  CommunicatorId replicas_;  // those that hold the same; none: all hold others
  bool settled_ = false;     // the replicas' gradients are added up, until the step
  CommunicatorId node_, secondary_, across_;  // ZeRO++: inside of nodes, between them
  StreamId all_gather_, reduce_, nccl_;

  std::vector<ModuleId> running_;      // in forward: from the root down
  std::vector<ParameterId> returned_;  // by the module that runs
  bool asked_for_no_sync_ = false;
  Status failure_;             // of a drive, which ended training
  bool casts_are_old_ = true;  // somebody else wrote the partitions
  std::int32_t gathers_ = 0;
  std::vector<EventId> freed_;  // last uses of what was freed; gathers do not follow them yet
  bool dropped_ = false;        // a gather that the model's work has not waited for
  Bytes live_{}, promised_{};   // of gathered copies and buffers of gathers

  std::array<BufferId, memory_count> partitions_;  // of all gradients, by where they live
  BufferId bucket_buffer_;
  std::vector<ParameterId> bucket_;
  Numel bucket_numel_{};
  std::deque<EventId> ongoing_reductions_;
  // A bucket whose parts are not with those of earlier micro-batches yet.
  struct Reduced {
    std::vector<OnDemandParameter*> bucket;
    View scattered;
    EventId reduced;  // none: the reducing stream has waited for it
  };
  Reduced unkept_;
};

}  // namespace tessera
