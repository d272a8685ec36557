// SPDX-License-Identifier: Apache-2.0
// The engine behind sharded_data_parallel. Files: host calls in owner_engine.cpp, what is owned and
// where values lie in owned_parameters.cpp, gradients until they are reduced in gradients.cpp,
// reducing them in reduce_to_owner.cpp, broadcasts in broadcast_values.cpp.
#pragma once

#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "engine/base/engine_base.h"
#include "engine/model/used_by.h"
#include "tessera/assert.h"
#include "tessera/sharded_data_parallel.h"

namespace tessera {

/// One parameter of the model.
struct OwnedParameter {
  ParameterId id;
  Numel numel{};
  DType dtype = DType::float32;
  Index owner = -1;  // none: it is in no param group
  std::int32_t optimizer = -1;
  bool trained = false;    // by its owner
  ParamShard shard;        // its value is a part of the owner's shard
  std::size_t bucket = 0;  // if trained
  Numel offset{};          // in its bucket
  BufferId extra;          // gradient of this backward pass, if the bucket has an earlier one
  bool touched = false;    // by a body of this backward pass
  bool ready = false;      // in this backward pass
  bool filled = false;     // the bucket has a gradient that is not reduced yet

  std::tuple<std::int32_t, Index, DType> shard_key() const { return {optimizer, owner, dtype}; }
};

/// All that one rank owns of one optimizer and dtype: a flat buffer on every rank, trained
/// parameters first.
struct OwnerShard {
  std::string_view name;  // kept by the runtime: causes outlive shards
  std::int32_t optimizer = 0;
  Index owner = 0;
  DType dtype = DType::float32;
  std::int32_t parameters = 0;
  Numel trained{};  // elements that are stepped and broadcast
  Numel numel{};
  BufferId value;
};

/// The content of one Reduce: a bucket, or one parameter alone. Invalid ids: does not exist now.
struct GradientBucket {
  std::string_view name;                // of the owner's shard
  std::string_view module;              // of the parameter, if alone
  std::vector<std::size_t> parameters;  // places in parameters_, in order of offset
  std::int32_t optimizer = 0;
  Index owner = 0;
  DType dtype = DType::float32;
  Numel numel{};
  std::size_t pending = 0;  // gradients that are still missing
  BufferId fresh;           // gradients of every rank that are not reduced yet
  BufferId wire;            // what is reduced: the above, perhaps in another dtype
  BufferId gradient;        // the owner's: all that was reduced since the last step
};

class OwnerEngine final : public EngineBase, public ShardedDataParallel {
 public:
  OwnerEngine(Runtime& runtime, const Model& model, const ShardedDataParallelOptions& options,
              const RankGroups& groups);
  Status setup();

  Index owner_of(ParameterId parameter) const override {
    TESSERA_ASSERT(parameter.valid() && parameter.index() < parameters_.size(),
                   "a parameter of the model");
    return at(parameter).owner;
  }
  std::int32_t owners_version() const override { return owners_version_; }
  Status step_optimizer(std::int32_t optimizer, const AdamOptions& options) override;
  Status set_norm_group(const RankGroups& groups) override;
  void set_norm_filter(std::function<bool(ParameterId)> counts) override {
    counts_ = std::move(counts);
  }
  Status reduce() override;
  Status zero_grad(bool set_to_none) override;
  Status sync_buffers() override;
  Status refresh_trainable() override;
  bool requires_gradient_sync() const override { return sync_; }
  Status inspect_gradient(ParameterId parameter,
                          const std::function<void(Rank, std::span<const float>)>& read) override;

  Status begin_forward() override;
  Status begin_backward() override;
  Status grad_ready(ParameterId parameter) override;
  Status end_backward() override;
  Status step(const AdamOptions& options) override;
  Status clip_grad_norm(float max_norm, double norm_type,
                        const std::function<void(Rank, float)>& total) override;
  std::vector<UnitInfo> units() const override;
  std::vector<std::string> warnings() const override;
  std::vector<std::string> notation(const Recording& recording) const override {
    return to_fairscale_notation(recording);
  }

 private:
  Result<View> unowned_gradient(OwnedParameter& p);
  Status drop_unowned();
  Result<View> parameter_view(ParameterId id) override { return at(id).shard.values(); }
  Result<View> gradient_view(ParameterId id) override;
  bool runs_any_graph() const override { return true; }
  std::vector<ParamShard*> shards() override;
  Index shard_index(Rank) const override { return 0; }
  ShardGroups shard_groups() const override {
    return {1, {}, ranks_ > 1 ? group_ : CommunicatorId{}};
  }
  CommunicatorId norm_group() const override {
    if (norm_group_.valid()) return norm_group_;
    return ranks_ > 1 ? group_ : CommunicatorId{};
  }
  bool in_norm(const ParamShard& shard) const override {
    return !counts_ || counts_(shard.map.segments().front().parameter);
  }
  Index replica_index(Rank rank) const override { return groups_.index_of(rank); }
  RankSet first_ranks() const override { return owner_set(0); }
  Status expect_no_gradients(const char* call) override;
  Status on_param_groups() override;
  Status free_gradients(EventId stepped) override;
  Status share_stepped() override { return broadcast_shards(); }
  std::vector<StreamId> side_streams() const override { return {comm_}; }

  OwnedParameter& at(ParameterId id) { return parameters_[id.index()]; }
  const OwnedParameter& at(ParameterId id) const { return parameters_[id.index()]; }
  const RankSet& owner_set(Index owner) const {
    TESSERA_ASSERT(owner >= 0 && owner < ranks_, "somebody owns it");
    return owners_[static_cast<std::size_t>(owner)];
  }
  RankSet others(Index owner) const { return everyone_.minus(owner_set(owner)); }
  bool steps_now(std::int32_t optimizer) const {
    return optimizer >= 0 && optimizer_.selects(optimizer);
  }

  // owned_parameters.cpp
  Status add_parameters();
  Status add_buffers();
  void assign_owners_to_all();
  bool has_owner(const OwnedParameter& p) const { return p.owner >= 0; }
  void set_trained(OwnedParameter& p);
  std::vector<OwnedTensor> tensors() const;
  bool mask_changed() const;
  Status refresh();
  Status lay_out_values();
  void plan_buckets();
  std::vector<std::size_t> expected_places() const;  // by ParameterId, in backward

  // gradients.cpp
  Cause cause_of(const GradientBucket& bucket, Reason reason) const;
  View whole(BufferId buffer, const GradientBucket& b) const {
    return View::whole(buffer, b.dtype, b.numel);
  }
  View slice(BufferId buffer, const OwnedParameter& p) const {
    return View::part(buffer, p.dtype, p.offset, p.numel);
  }
  Status allocate_fresh(GradientBucket& bucket);
  Status accumulate(OwnedParameter& p);
  Status zero_missing(const GradientBucket& bucket);
  bool unreduced() const;
  bool any_gradient() const;
  Status expect_reduced(const char* call) const;

  // reduce_to_owner.cpp
  Status launch_ready();
  Status launch(GradientBucket& bucket);
  Status flush();
  Status finish(GradientBucket& bucket);
  DType wire_dtype(const GradientBucket& bucket) const;

  // broadcast_values.cpp
  Status sync_model();
  Status broadcast_buffers();
  Status broadcast_in_place(const std::vector<View>& views, Index root);
  Status use(const std::vector<View>& views);
  Status broadcast_shards();
  Result<View> pack(const OwnerShard& shard);
  std::vector<View> buffer_views() const;

  const ShardedDataParallelOptions options_;
  const RankGroups groups_;
  const Index ranks_;            // of a group
  std::vector<RankSet> owners_;  // by place in the group
  OwnerMap owner_map_;
  std::int32_t owners_version_ = 0;
  std::vector<OwnedParameter> parameters_;  // by ParameterId
  std::vector<OwnerShard> shards_;          // by owner, then dtype
  std::vector<GradientBucket> buckets_;     // in the order in which they are reduced
  std::vector<BufferId> module_buffers_;    // by place in Model::buffers
  CommunicatorId group_, norm_group_;
  StreamId comm_;
  std::function<bool(ParameterId)> counts_;  // into norms; none: all
  std::size_t next_bucket_ = 0;
};

}  // namespace tessera
