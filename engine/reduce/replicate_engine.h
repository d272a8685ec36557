// SPDX-License-Identifier: Apache-2.0
// The reducer of DDP behind the Engine interface. Files: host calls in replicate_engine.cpp,
// buckets in buckets.cpp, the collectives of construction in init_sync.cpp.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "engine/model/used_by.h"
#include "engine/shard/engine_base.h"
#include "tessera/replicate.h"

namespace tessera {

/// One parameter of the model. Invalid ids mean "does not exist now".
struct ReplicatedParameter {
  ParameterId id;
  Numel numel{};
  bool trained = false;  // and not ignored: it is reduced
  Held held;             // the whole parameter
  BufferId fresh;        // gradient of this backward pass
  BufferId gradient;     // .grad; with gradient_as_bucket_view it is in the bucket
  bool has_gradient = false;
  bool ready = false;          // in this backward pass
  std::int32_t uses_left = 0;  // static_graph: of the first step's number of uses
  std::size_t bucket = 0;
  Numel offset{};  // in its bucket
};

struct Bucket {
  std::string name;
  std::vector<std::size_t> parameters;  // places in parameters_, in order of offset
  Numel numel{};
  BufferId buffer;
  std::size_t pending = 0;  // gradients that are still missing
  EventId reduced;
};

class ReplicateEngine final : public EngineBase {
 public:
  ReplicateEngine(Runtime& runtime, const Model& model, const ReplicateOptions& options);
  Status setup();

  Status begin_forward() override;
  Status pre_forward(ModuleId) override {
    return recomputing() ? Status{} : expect(Stage::forward, "pre_forward");
  }
  Status post_forward(ModuleId) override {
    return recomputing() ? Status{} : expect(Stage::forward, "post_forward");
  }
  Status begin_backward() override;
  Status pre_backward(ModuleId) override { return expect(Stage::backward, "pre_backward"); }
  Status grad_ready(ParameterId parameter) override;
  Status post_backward(ModuleId) override { return expect(Stage::backward, "post_backward"); }
  Status end_backward() override;
  Status compute(const ModuleWork& work) override;
  std::vector<UnitInfo> units() const override;

 private:
  Result<View> parameter_view(ParameterId id) override;
  Result<View> gradient_view(ParameterId id) override;
  std::vector<Held*> held() override;
  Index shard_index(Rank) const override { return 0; }
  Status free_gradients(EventId stepped) override;
  ShardGroups shard_groups() const override {
    return {1, {}, world_size_ > 1 ? world_ : CommunicatorId{}};
  }
  std::vector<StreamId> side_streams() const override { return {nccl_}; }

  Status add_parameters();
  std::vector<bool> ignored() const;  // by ModuleId
  ReplicatedParameter& at(ParameterId id) {
    return parameters_[static_cast<std::size_t>(id.value)];
  }
  std::string_view name(const ReplicatedParameter& p) const { return model_.parameter(p.id).name; }
  Cause cause_of(const ReplicatedParameter& p, Reason reason) const;
  View slice(const ReplicatedParameter& p) const;
  View whole(BufferId buffer, const ReplicatedParameter& p) const {
    return View::whole(buffer, options_.dtype, p.numel);
  }

  // init_sync.cpp
  Status sync_model();
  Status verify_model();
  Status broadcast_parameters();
  Status broadcast_numbers(const std::string& name, std::int64_t count);

  // buckets.cpp
  void plan_first_buckets();
  Status rebuild_if_due();
  void lay_out(const std::vector<std::vector<std::size_t>>& buckets);
  Status allocate_buckets();
  Status clear_views();
  Status accumulate(ReplicatedParameter& p);
  Status copy_into_bucket(ReplicatedParameter& p, bool zeros);
  Status mark_ready(ReplicatedParameter& p);
  Status mark_unused();
  Status launch_ready_buckets();
  Status finish_buckets();

  const ReplicateOptions options_;
  const Index world_size_;
  std::vector<ReplicatedParameter> parameters_;  // by ParameterId
  std::vector<Bucket> buckets_;                  // in the order in which they are reduced
  CommunicatorId world_;
  StreamId nccl_;

  bool rebuilt_ = false;
  std::int32_t synced_backwards_ = 0;
  std::vector<std::size_t> ready_order_;  // of the first backward that counts for rebuilding
  std::vector<bool> used_;                // by ParameterId, in this forward
  std::vector<std::int32_t> uses_;        // by ParameterId, of the first step (static_graph)
  std::vector<std::int32_t> uses_now_;
  std::size_t next_bucket_ = 0;
  bool swept_unused_ = false;
  std::string unfinished_;  // parameters that the last backward left out
};

}  // namespace tessera
