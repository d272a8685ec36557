// SPDX-License-Identifier: Apache-2.0
// The reducer of DDP behind the Engine interface. Files: host calls in replicate_engine.cpp, what
// is replicated in replicated_parameters.cpp, filling and rebuilding buckets in buckets.cpp,
// reducing them in bucket_reduce.cpp, collectives about the model itself in model_sync.cpp, uneven
// inputs in join.cpp.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "engine/base/engine_base.h"
#include "engine/base/process_groups.h"
#include "engine/model/used_by.h"
#include "engine/schemes/replicate/gradient_reducer.h"
#include "tessera/join.h"
#include "tessera/replicate.h"

namespace tessera {

/// One parameter of the model. Invalid ids mean "does not exist now".
struct ReplicatedParameter {
  ParameterId id;
  Numel numel{};
  bool trained = false;  // and not ignored: it is reduced
  ParamShard shard;      // the whole parameter
  BufferId fresh;        // gradient of this backward pass
  BufferId gradient;     // .grad; with gradient_as_bucket_view it is in the bucket
  bool has_gradient = false;
  bool ready = false;          // in this backward pass
  std::int32_t uses_left = 0;  // static_graph: of the first step's number of uses
  std::size_t bucket = 0;
  Numel offset{};  // in its bucket
};

struct Bucket {
  std::string_view name;                // kept by the runtime: causes outlive buckets
  std::vector<std::size_t> parameters;  // places in parameters_, in order of offset
  Numel numel{};
  DType dtype = DType::float32;
  BufferId buffer;
  std::size_t pending = 0;  // gradients that are still missing
  EventId reduced;
};

/// Uneven inputs: what `Join` has announced.
struct JoinState {
  JoinOptions options;
  bool entered = false;
  bool announced = false;         // the ranks of the step to come
  std::int32_t shadow_steps = 0;  // with ranks that have joined
  std::string warning;
};

class ReplicateEngine final : public EngineBase, public GradientReducer {
 public:
  ReplicateEngine(Runtime& runtime, const Model& model, const ReplicateOptions& options,
                  const RankGroups& groups);
  ~ReplicateEngine() override;
  Status setup();

  GradientReducer* gradient_reducer() override { return this; }
  Status register_hook(std::shared_ptr<CommHook> hook) override;
  Status set_static_graph() override;
  Status enter_join(const JoinOptions& options) override;
  Status announce(const RankSet& with_input) override;
  Status leave_join() override;
  const std::string& join_warning() const override { return join_.warning; }

  Status begin_forward() override;
  Status begin_backward() override;
  Status grad_ready(ParameterId parameter) override;
  Status end_backward() override;
  Status compute(const ModuleWork& work) override;
  std::vector<UnitInfo> units() const override;
  std::vector<std::string> warnings() const override;
  std::vector<std::string> notation(const Recording& recording) const override {
    return to_ddp_notation(recording);
  }

 private:
  Result<View> parameter_view(ParameterId id) override;
  Result<View> gradient_view(ParameterId id) override;
  bool runs_any_graph() const override { return true; }
  std::vector<ParamShard*> shards() override;
  Index shard_index(Rank) const override { return 0; }
  Status complete_gradients() override;
  Status free_gradients(EventId stepped) override;
  ShardGroups shard_groups() const override {
    return {1, {}, world_size_ > 1 ? world_ : CommunicatorId{}};
  }
  Index replica_index(Rank rank) const override { return groups_.index_of(rank); }
  RankSet first_ranks() const override { return first_members(groups_); }
  std::vector<StreamId> side_streams() const override { return {nccl_}; }

  // replicated_parameters.cpp
  Status add_parameters();
  Status add_buffers();
  std::vector<bool> ignored_modules() const;     // by ModuleId
  std::vector<bool> trained_parameters() const;  // by ParameterId: those that are reduced
  ReplicatedParameter& at(ParameterId id) { return parameters_[id.index()]; }
  std::string_view name(const ReplicatedParameter& p) const { return model_.parameter(p.id).name; }
  Cause cause_of(const ReplicatedParameter& p, Reason reason) const;
  View slice(const ReplicatedParameter& p) const;
  View whole(BufferId buffer, const ReplicatedParameter& p) const {
    return View::whole(buffer, p.shard.dtype, p.numel);
  }

  // model_sync.cpp
  Status sync_model();
  Status verify_model();
  Status broadcast_state(Index root);
  Status broadcast_coalesced(const std::vector<View>& views, Index root);
  Status broadcast_together(const std::vector<View>& views, Index root);
  Status broadcast_numbers(const std::string& name, std::int64_t count, DType dtype = DType::int32);
  Status sync_buffers();
  std::vector<View> buffer_views() const;

  // buckets.cpp
  std::vector<Bytes> bucket_caps() const;
  void plan_first_buckets();
  Status rebuild_if_due();
  std::vector<std::size_t> rebuild_order() const;
  Status move_gradients(const std::vector<Bucket>& old,
                        const std::vector<ReplicatedParameter>& before);
  void lay_out(const std::vector<std::vector<std::size_t>>& buckets);
  Status allocate_buckets();
  Status clear_views();
  Status accumulate(ReplicatedParameter& p);
  Status copy_into_bucket(ReplicatedParameter& p, bool zeros);
  Status mark_ready(ReplicatedParameter& p);
  Status mark_unused();

  // bucket_reduce.cpp
  Status launch_ready_buckets();
  Result<EventId> run_hook(std::size_t index);
  Status zero_for_joined(const Bucket& bucket);
  Status reduce_used_map();
  Status finish_buckets();
  Status finish_bucket(const Bucket& bucket);

  // join.cpp
  RankSet joined() const { return everyone_.minus(active_); }
  float divisor() const;
  Status announce_forward();
  Status agree_on_number(const std::string& name, Reduction reduction,
                         std::function<float(Rank)> value);

  Status check_same_uses() const;
  Status expect_finished() const;
  bool finds_unused() const { return options_.find_unused_parameters && !options_.static_graph; }
  bool views() const { return options_.gradient_as_bucket_view; }

  ReplicateOptions options_;
  const RankGroups groups_;                      // each trains a model of its own
  const Index world_size_;                       // of a group
  std::vector<ReplicatedParameter> parameters_;  // by ParameterId
  std::vector<Bucket> buckets_;                  // in the order in which they are reduced
  std::vector<BufferId> module_buffers_;         // by place in Model::buffers; none: ignored
  CommunicatorId world_;                         // a group
  StreamId nccl_;
  std::shared_ptr<CommHook> hook_;
  JoinState join_;

  bool started_ = false;       // a forward pass has begun
  bool buffers_stale_ = true;  // the last forward was to be synchronised
  bool rebuilt_ = false;
  std::int32_t synced_backwards_ = 0;
  std::vector<std::size_t> ready_order_;  // of the youngest backward
  std::vector<bool> used_;                // by ParameterId, in this forward
  std::vector<bool> used_since_sync_;     // has a gradient that was not reduced yet
  std::vector<std::int32_t> uses_;        // by ParameterId, of the first step (static_graph)
  std::vector<std::int32_t> uses_now_;
  BufferId used_map_;  // find_unused_parameters: used_ on the device
  EventId used_map_reduced_;
  std::size_t next_bucket_ = 0;
  bool swept_unused_ = false;
  std::string unfinished_;  // parameters that the last backward left out
};

}  // namespace tessera
