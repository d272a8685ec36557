// SPDX-License-Identifier: Apache-2.0
// The schedule of FSDP1. Files: host calls in flat_engine.cpp, gathering in flat_gather.cpp,
// gradients in flat_reduce.cpp.
#pragma once

#include <deque>
#include <string>
#include <vector>

#include "engine/base/engine_base.h"
#include "engine/model/gradient_flow.h"
#include "engine/schemes/fsdp1/flat_layout.h"
#include "tessera/assert.h"
#include "tessera/device_mesh.h"
#include "tessera/fsdp1.h"

namespace tessera {

/// One flat parameter. Invalid ids mean "does not exist now".
struct FlatUnit {
  std::string_view name;
  ModuleId module;
  FlatLayout layout;
  DType param_dtype = DType::float32;
  DType reduce_dtype = DType::float32;
  bool frees_after_forward = true;
  ParamShard shard;           // the local shard; all of it without sharding
  BufferId staged;            // the shard in param_dtype on the device, input of the all_gather
  BufferId unsharded;         // padded
  BufferId gradient;          // of this backward pass, unsharded
  std::vector<bool> written;  // by entry of the layout: the gradient has it
  BufferId accumulated;       // unsharded gradients of micro-batches without sync
  BufferId sharded_gradient;  // for the optimizer
  bool frozen = false;        // all of it
  bool casts = false;         // its inputs, to param_dtype
  bool casts_now = false;     // and they had another dtype in this forward
  bool prefetched = false;
  bool needs_pre_forward = true;
  bool needs_pre_backward = false;
  bool finished_backward = false;
  std::vector<std::size_t> post_forward_indices;  // of this step's forward passes
  std::size_t backward_place = 0;                 // of the pass that backward undoes now
};

class FlatEngine final : public EngineBase {
 public:
  FlatEngine(Runtime& runtime, const Model& model, const Fsdp1Options& options);
  Status setup();

  Status begin_forward() override;
  Status pre_forward(ModuleId module) override;
  Status post_forward(ModuleId module) override;
  Status begin_backward() override;
  Status pre_backward(ModuleId module) override;
  // The flat gradient is reduced as one.
  Status grad_ready(ParameterId parameter) override {
    return expect_known("grad_ready", parameter);
  }
  Status post_backward(ModuleId module) override;
  Status end_backward() override;
  Status compute(const ModuleWork& work) override;
  std::vector<UnitInfo> units() const override;
  std::vector<std::string> notation(const Recording& recording) const override {
    return to_fsdp1_notation(recording, units());
  }
  std::vector<std::string> warnings() const override;

 private:
  Result<View> parameter_view(ParameterId id) override;
  Result<View> gradient_view(ParameterId id) override;
  std::vector<ParamShard*> shards() override;
  Index shard_index(Rank rank) const override { return mesh_.index("shard", rank); }
  Status complete_gradients() override;
  Status await_reductions();
  Status free_gradients(EventId stepped) override;
  ShardGroups shard_groups() const override { return {shard_size_, shard_group_, replica_group_}; }
  std::vector<StreamId> side_streams() const override;
  Status before_gather() override { return sharded() ? limit() : Status{}; }
  Status after_free(std::string_view unit) override;
  Status before_write() override;

  Status plan_mesh();
  Status create_streams_and_groups();
  Status add_unit(std::size_t index);
  FlatUnit* unit_of(ModuleId module);
  FlatUnit& unit_with(ParameterId id) {
    const std::size_t unit = assignment_.unit_of_parameter[id.index()];
    TESSERA_ASSERT(unit < units_.size(), "ignored parameters are in no unit and are not asked for");
    return units_[unit];
  }
  const FlatLayout::Entry& entry_of(ParameterId id) const;

  bool sharded() const { return shard_size_ > 1; }
  // Without sync, what stayed after forward stays for the next micro-batch as well.
  bool frees_in_backward(const FlatUnit& unit) const {
    return unit.frees_after_forward || reduces_ || !sharded();
  }
  DType gradient_dtype(const FlatUnit& unit) const {
    return options_.keep_low_precision_grads ? unit.reduce_dtype : options_.original_dtype;
  }
  // The shard is cast or copied to the device before it is used.
  bool staged(const FlatUnit& unit) const {
    return unit.param_dtype != options_.original_dtype || options_.offload_params;
  }

  // flat_gather.cpp
  Status unshard(FlatUnit& unit, Reason reason);
  Status stage(FlatUnit& unit, Reason reason);  // the shard in param_dtype on the device
  Status limit();                               // holds the host back
  Status reshard(FlatUnit& unit, bool free);
  Status prefetch(FlatUnit& unit, Reason reason);
  Status prefetch_backward(const FlatUnit& unit);
  Status end_evaluation();
  Status prefetch_forward(const FlatUnit& unit);

  // flat_reduce.cpp
  Status finish_unit(FlatUnit& unit);
  Status free_frozen();
  Status fill_gaps(FlatUnit& unit);  // zeros where no parameter has a gradient
  Status accumulate(FlatUnit& unit);
  Status reduce(FlatUnit& unit);
  Status bound_gradients();
  Result<View> reducible(FlatUnit& unit);  // padded, in reduce_dtype
  Status scale(const FlatUnit& unit, const View& view, float divisor, StreamId stream);
  Status keep(FlatUnit& unit, const View& reduced, StreamId stream);

  const Fsdp1Options options_;
  ShardingStrategy strategy_;
  DeviceMesh mesh_;
  Index shard_size_ = 1;
  Index replicas_ = 1;
  const GradientFlow flow_;

  std::vector<FlatUnit> units_;                  // pre-order, root first
  std::vector<std::size_t> entry_of_parameter_;  // by ParameterId: place in its unit's layout
  std::vector<bool> trained_;                    // by ParameterId, when the engine was made
  CommunicatorId shard_group_, replica_group_;
  StreamId unshard_stream_, pre_unshard_, post_backward_stream_, all_reduce_;

  bool initialised_ = false;            // the first forward ran
  DType input_dtype_ = DType::float32;  // of the next unit
  std::vector<std::size_t> left_;       // frozen units whose backward is over, still gathered
  std::deque<EventId> frees_;           // the limiter's queue
  EventId reduced_;  // the last reduction of this backward pass that read an unsharded gradient
  std::vector<std::size_t> pre_forward_order_;   // of the first step
  std::vector<std::size_t> post_forward_order_;  // of this step
};

}  // namespace tessera
