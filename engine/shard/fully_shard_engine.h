// SPDX-License-Identifier: Apache-2.0
// The schedule of fully_shard: when units are gathered, freed, reduced and stepped.
//
// The idea: host calls only move unit state machines; each transition issues its operations at once
// and leaves the events that later transitions need. Files: this class's host calls in
// fully_shard_engine.cpp, gathering in unit_gather.cpp, gradients in unit_reduce.cpp.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "engine/model/gradient_flow.h"
#include "engine/shard/dim0_layout.h"
#include "engine/shard/engine_base.h"
#include "tessera/fully_shard.h"

namespace tessera {

/// One parameter of a unit and its buffers; invalid ids mean "does not exist now".
struct UnitParameter {
  ShardedParameter layout;
  std::string name;      // relative to the unit: "mlp.up_proj.weight"
  Held held;             // the shard, always there
  BufferId unsharded;    // while the unit is unsharded
  BufferId gradient;     // unsharded, from backward until it is packed or accumulated
  BufferId accumulated;  // unsharded sum of micro-batches without sync, in reduce_dtype
};

struct Unit {
  std::string_view name;  // "root" or the module's path in the Model
  ModuleId module;
  std::vector<UnitParameter> parameters;
  UnitLayout layout;
  bool reshard_after_forward = true;

  bool unsharded = false;
  BufferId gather_buffer;     // from the all_gather until the copy-out
  EventId gathered;           // the all_gather's event, while it is pending
  BufferId sharded_gradient;  // reduce_scatter's output, until the optimizer has used it
  DType sharded_gradient_dtype = DType::float32;
  std::vector<std::size_t> post_forward_indices;  // places in the order of forward passes
  bool in_backward = false;                       // pre_backward ran, post_backward is owed
  bool finished_backward = false;
};

class FullyShardEngine final : public EngineBase {
 public:
  FullyShardEngine(Runtime& runtime, const Model& model, FullyShardOptions options);
  Status setup();

  Status begin_forward() override;
  Status pre_forward(ModuleId module) override;
  Status post_forward(ModuleId module) override;
  Status begin_backward() override;
  Status pre_backward(ModuleId module) override;
  Status grad_ready(ParameterId) override { return {}; }  // the unit reduces in post_backward
  Status post_backward(ModuleId module) override;
  Status end_backward() override;
  std::vector<UnitInfo> units() const override;

 private:
  // A buffer that may go once the streams follow `event`.
  struct Pending {
    BufferId buffer;
    EventId event;
  };

  Result<View> parameter_view(ParameterId id) override;
  Result<View> gradient_view(ParameterId id) override;
  std::vector<Held*> held() override;
  Index shard_index(Rank rank) const override { return rank; }
  Status free_gradients(EventId stepped) override;
  ShardGroups shard_groups() const override { return {group_size_, world_, {}}; }
  std::vector<StreamId> side_streams() const override {
    return {copy_in_, all_gather_, reduce_scatter_};
  }
  Unit* unit_of(ModuleId module);
  Status add_unit(std::size_t index);

  // unit_gather.cpp
  Status allocate_shards(Unit& unit);
  Status unshard(Unit& unit, Reason reason);  // issues the all_gather unless it is needless
  Result<EventId> copy_in(Unit& unit, Reason reason);
  Status wait_for_unshard(Unit& unit);  // copies out and frees the gather buffer
  Status copy_out(Unit& unit);
  Status free_gathered(Pending& gathered, const Cause& cause);
  Status reshard(Unit& unit);
  Status prefetch_before(std::size_t post_forward_index);

  // unit_reduce.cpp
  Status reduce_gradients(Unit& unit);
  Status pack_gradients(Unit& unit, BufferId into);
  Status accumulate_gradients(Unit& unit);  // unsharded, without communication
  Status scatter(Unit& unit, BufferId packed, BufferId shard);
  Status keep_sharded_gradient(Unit& unit, BufferId scattered);
  Status finish_reduce();

  Unit& unit_with(ParameterId id);
  UnitParameter& parameter(ParameterId id);

  const FullyShardOptions options_;
  const Index group_size_;
  const GradientFlow flow_;

  std::vector<Unit> units_;                     // pre-order, root first
  std::vector<std::size_t> slot_of_parameter_;  // by ParameterId: place in its unit
  CommunicatorId world_;
  StreamId copy_in_, all_gather_, reduce_scatter_;

  std::vector<std::size_t> forward_order_;  // units in the order of their post_forward
  std::optional<Pending> last_gathered_;    // forward: kept so that the next copy-in may overlap
  std::optional<Pending> last_packed_;      // the youngest reduce_scatter's input
  EventId last_reduced_;                    // the youngest unit whose gradients are sharded
};

}  // namespace tessera
