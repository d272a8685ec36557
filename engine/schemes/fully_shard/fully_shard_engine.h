// SPDX-License-Identifier: Apache-2.0
// The schedule of fully_shard: when units are gathered, freed, reduced and stepped.
//
// The idea: host calls only move unit state machines; each transition issues its operations at once
// and leaves the events that later transitions need. Files: this class's host calls in
// fully_shard_engine.cpp, controls in controls.cpp, gathering in unit_gather.cpp, gradients in
// unit_reduce.cpp, roots in unit_trees.cpp.
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "engine/base/engine_base.h"
#include "engine/model/gradient_flow.h"
#include "engine/schemes/fully_shard/dim0_layout.h"
#include "tessera/device_mesh.h"
#include "tessera/fully_shard.h"

namespace tessera {

/// One parameter of a unit and its buffers; invalid ids mean "does not exist now".
struct UnitParameter {
  ShardedParameter layout;
  std::string name;       // relative to the unit: "mlp.up_proj.weight"
  ParamShard shard;       // the shard, always there
  BufferId post_forward;  // a larger shard, from forward to backward (reshard to a group)
  BufferId unsharded;     // while the unit is unsharded
  BufferId gradient;      // unsharded, from backward until it is packed or accumulated
  BufferId accumulated;   // unsharded sum of micro-batches without sync, in reduce_dtype
};

/// Who shards a unit, and who holds the same shards.
struct UnitMesh {
  Index size = 1;  // ranks that shard together
  Index replicas = 1;
  CommunicatorId shard, replicate;
};

struct Unit {
  std::string_view name;  // "root" or the module's path in the Model
  ModuleId module;
  UnitMesh mesh;
  std::vector<UnitParameter> parameters;
  UnitLayout layout;
  DType param_dtype = DType::float32;
  DType reduce_dtype = DType::float32;
  bool reshard_after_forward = true;
  bool offload = false;            // shards in host memory
  bool reshards_to_group = false;  // then, to a smaller group
  Index reshard_group = 0;         // of so many ranks
  CommunicatorId post_forward_group;
  std::vector<std::size_t> forward_prefetch, backward_prefetch;  // explicit lists

  bool unsharded = false;
  BufferId gather_buffer;  // from the all_gather until the copy-out
  EventId gathered;        // the all_gather's event, while it is pending
  EventId resharded;       // the copy to post-forward shards
  bool post_forward_sharded = false;
  BufferId partial;           // reduce-scattered, but not all-reduced yet
  BufferId sharded_gradient;  // reduce_scatter's output, until the optimizer has used it
  std::vector<std::size_t> post_forward_indices;  // places in the order of forward passes
  bool finished_backward = false;
  bool requires_sync = true;  // as it was set last
  bool reduces = true;        // this backward pass
  std::size_t tree = 0;
};

// A buffer that may go once the streams follow `event`.
struct PendingBuffer {
  BufferId buffer;
  EventId event;
};

/// A root and the units in it, which share streams and an order (torch FSDPCommContext,
/// FSDPStateContext). There is one, unless the model's root is no unit.
struct UnitTree {
  std::size_t root = 0;  // the place of its unit
  StreamId copy_in, all_gather, reduce_scatter, all_reduce;
  std::vector<std::size_t> forward_order;      // units in the order of their post_forward
  std::optional<PendingBuffer> last_gathered;  // forward: kept so that the next copy-in may overlap
  std::deque<PendingBuffer> packed;            // inputs of reduce_scatters, oldest first
  // The youngest unit whose gradients are sharded, with replicas and without.
  EventId last_all_reduced, last_reduced;
  bool in_backward = false;  // has a place in the order of this pass
};

class FullyShardEngine final : public EngineBase, public FullyShard {
 public:
  FullyShardEngine(Runtime& runtime, const Model& model, FullyShardOptions options);
  Status setup();

  Status begin_forward() override;
  Status pre_forward(ModuleId module) override;
  Status post_forward(ModuleId module) override;
  Status begin_backward() override;
  Status pre_backward(ModuleId module) override;
  // The unit reduces in post_backward.
  Status grad_ready(ParameterId parameter) override {
    return expect_known("grad_ready", parameter);
  }
  Status post_backward(ModuleId module) override;
  Status end_backward() override;
  Status step(const AdamOptions& options) override;
  std::vector<UnitInfo> units() const override;
  std::vector<std::string> warnings() const override { return locals_.warnings(); }
  std::vector<std::string> notation(const Recording& recording) const override {
    return to_fsdp_notation(recording);
  }

  // controls.cpp
  Status set_modules_to_forward_prefetch(ModuleId unit,
                                         const std::vector<ModuleId>& targets) override;
  Status set_modules_to_backward_prefetch(ModuleId unit,
                                          const std::vector<ModuleId>& targets) override;
  Status unshard(ModuleId unit) override;
  Status reshard(ModuleId unit) override;
  Status set_reshard_after_forward(ModuleId unit, bool reshard) override;
  using EngineBase::set_requires_gradient_sync;
  Status set_requires_gradient_sync(ModuleId unit, bool sync, bool recurse) override;
  void set_reshard_after_backward(bool reshard) override { reshard_after_backward_ = reshard; }
  void set_requires_all_reduce(bool all_reduce) override { requires_all_reduce_ = all_reduce; }
  void set_is_last_backward(bool last) override { is_last_backward_ = last; }

 private:
  // Who gathers a unit now: all that shard together, or the smaller group.
  struct Gathering {
    CommunicatorId group;
    Index size = 1;
    std::int64_t scale = 1;  // its shards are that many times larger
  };
  Result<View> parameter_view(ParameterId id) override;
  Result<View> gradient_view(ParameterId id) override;
  std::vector<ParamShard*> shards() override;
  Index shard_index(Rank rank) const override { return mesh_.index("shard", rank); }
  CommunicatorId norm_group() const override {
    return norm_group_.valid() ? norm_group_ : EngineBase::norm_group();
  }
  Status complete_gradients() override;
  Status free_gradients(EventId stepped) override;
  ShardGroups shard_groups() const override { return groups_of_mesh(main_); }
  std::vector<StreamId> side_streams() const override;
  Status finish_gathers() override;
  Status before_write() override;
  Unit* unit_of(ModuleId module);
  Status add_unit(std::size_t index);
  Status check_options();
  Status create_streams_and_groups();

  // unit_settings.cpp
  Status share_by_units();
  Result<UnitMesh> mesh_of(Index shard_group);
  Status settings_of(std::size_t index, Unit& unit);
  Status reshard_settings_of(std::size_t index, Unit& unit);
  static ShardGroups groups_of_mesh(const UnitMesh& mesh) {
    return {mesh.size, mesh.size > 1 ? mesh.shard : CommunicatorId{}, mesh.replicate};
  }

  Result<Unit*> named_unit(ModuleId module, const char* call);
  Result<std::vector<std::size_t>> named_units(const std::vector<ModuleId>& modules,
                                               const char* call);
  std::size_t place(const Unit& unit) const {
    return static_cast<std::size_t>(&unit - units_.data());
  }

  // unit_trees.cpp
  Status leave_root_plain();
  Status create_streams(UnitTree& tree, const std::string& suffix);
  Status create_all_reduce_streams();
  Status plant(std::size_t index, Unit& unit);
  UnitTree& tree_of(const Unit& unit) { return trees_[unit.tree]; }
  bool is_root(const Unit& unit) const { return trees_[unit.tree].root == place(unit); }
  std::string_view root_name(const UnitTree& tree) const { return units_[tree.root].name; }
  Status follow_optimizer(UnitTree& tree);
  void enter_backward(UnitTree& tree);
  Status end_backward(std::size_t tree, bool first);

  // unit_gather.cpp
  Status allocate_shards(Unit& unit);
  Status unshard(Unit& unit, Reason reason);  // issues the all_gather unless it is needless
  Result<EventId> copy_in(Unit& unit, Reason reason);
  Status wait_for_unshard(Unit& unit);  // copies out and frees the gather buffer
  Status drop_gather(Unit& unit);       // that nobody waited for
  Status copy_out(Unit& unit);
  Status free_gathered(UnitTree& tree, PendingBuffer& gathered, const Cause& cause);
  Status reshard(Unit& unit);
  Status reshard_to_group(Unit& unit);
  Status prefetch_before(const UnitTree& tree, std::size_t post_forward_index);
  Status end_evaluation();
  Gathering gathering(const Unit& unit) const;

  // unit_reduce.cpp
  Status reduce_gradients(Unit& unit);
  Status pack_gradients(Unit& unit, BufferId into);
  Status accumulate_gradients(Unit& unit);  // unsharded, without communication
  Status scatter(Unit& unit, BufferId packed, BufferId shard);
  Status all_reduce(Unit& unit, BufferId shard);  // over replicas
  Status keep_sharded_gradient(Unit& unit, BufferId scattered);
  Status free_packed(UnitTree& tree, std::size_t left, std::string_view unit);
  Status finish_reduce(UnitTree& tree);

  Unit& unit_with(ParameterId id);
  UnitParameter& parameter(ParameterId id);

  FullyShardOptions options_;
  DeviceMesh mesh_;
  UnitMesh main_;                                        // of units that have none of their own
  std::map<Index, UnitMesh> meshes_;                     // by size, if units have several
  std::map<Index, CommunicatorId> post_forward_groups_;  // by size
  CommunicatorId norm_group_;                            // the world, if units have several meshes
  const GradientFlow flow_;

  std::vector<Unit> units_;                     // pre-order, root first
  std::vector<std::size_t> slot_of_parameter_;  // by ParameterId: place in its unit
  std::vector<UnitTree> trees_;
  std::vector<std::size_t> backward_order_;  // trees as they began in this backward pass

  bool reshard_after_backward_ = true;
  bool requires_all_reduce_ = true;
  bool is_last_backward_ = true;
};

}  // namespace tessera
