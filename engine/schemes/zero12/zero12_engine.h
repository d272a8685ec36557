// SPDX-License-Identifier: Apache-2.0
// The schedule of ZeRO stages 1 and 2. Files: host calls in zero12_engine.cpp, making it in
// zero12_setup.cpp, gradients in gradient_buckets.cpp and reduce_to_parts.cpp, values after a step
// in gather_parts.cpp.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "engine/base/engine_base.h"
#include "engine/schemes/zero12/flat_parts.h"
#include "tessera/fully_shard.h"
#include "tessera/zero12.h"

namespace tessera {

/// One parameter. Invalid ids mean "does not exist now".
struct PartedParameter {
  ParameterId id;
  Numel numel{};
  Numel place{};  // in its flat buffer
  bool trained = true;
  BufferId fresh;             // gradient of this backward pass
  BufferId gradient;          // stage 1: of all that are not reduced yet
  bool ready = false;         // in this backward pass
  bool has_gradient = false;  // in the rank's part
};

/// Parameters in one flat buffer.
struct FlatBuffer {
  FlatLayout layout;
  BufferId value;    // param_dtype, whole on every rank
  ParamShard shard;  // a rank's part: masters, or of frozen parameters a window of `value`
};

/// Gradients that are reduced together. A gradient alone lies in its own buffer.
struct PartBucket {
  BufferId buffer;
  std::vector<BucketEntry> entries;
  Numel numel{};
  EventId reduced;  // and copied out: the buffer may be written again
};

class Zero12Engine final : public EngineBase {
 public:
  Zero12Engine(Runtime& runtime, const Model& model, const Zero12Options& options);
  Status setup();

  Status begin_training(const AdamOptions& options) override { return optimizer_.begin(options); }
  Status begin_forward() override;
  Status begin_backward() override;
  Status grad_ready(ParameterId parameter) override;
  Status end_backward() override;
  Status clip_grad_norm(float max_norm, double norm_type,
                        const std::function<void(Rank, float)>& total) override;
  std::vector<UnitInfo> units() const override;
  std::vector<std::string> notation(const Recording& recording) const override {
    return to_fsdp_notation(recording);
  }
  std::vector<std::string> warnings() const override;

 private:
  Result<View> parameter_view(ParameterId id) override;
  Result<View> gradient_view(ParameterId id) override;
  std::vector<ParamShard*> shards() override;
  Index shard_index(Rank rank) const override { return static_cast<Index>(rank); }
  ShardGroups shard_groups() const override {
    return {ranks_, ranks_ > 1 ? world_ : CommunicatorId{}, {}};
  }
  Status free_gradients(EventId stepped) override;
  Status before_step() override { return reduce_rest(); }
  Status share_stepped() override { return gather_parts(); }
  std::vector<StreamId> side_streams() const override;
  Status before_write() override {
    values_are_old_ = true;
    return {};
  }

  // zero12_setup.cpp
  Status check_options() const;
  Status create_streams_and_groups();
  Status add_parameters();
  Status add_flat(FlatBuffer& flat, const std::vector<ParameterId>& ids, const std::string& name,
                  bool masters);

  PartedParameter& at(ParameterId id) { return parameters_[id.index()]; }
  std::string_view name(const PartedParameter& p) const { return model_.parameter(p.id).name; }
  const FlatBuffer& flat_of(const PartedParameter& p) const { return p.trained ? flat_ : frozen_; }
  DType param_dtype() const { return options_.param_dtype; }
  DType reduce_dtype() const { return options_.reduce_dtype.value_or(options_.param_dtype); }
  bool parts_gradients() const { return options_.stage == 2; }
  bool overlaps() const { return parts_gradients() && options_.overlap_comm; }
  /// Masters, states and parts of gradients are in host memory, and the CPU steps.
  bool offloads() const { return options_.offload_optimizer.device == Offload::Device::cpu; }
  Memory home() const { return offloads() ? Memory::pinned_host : Memory::device; }

  // gradient_buckets.cpp
  Status finish_gradient(PartedParameter& p);
  Status open_buckets();
  Status close_buckets();
  Status add_to_bucket(PartedParameter& p, BufferId& gradient);
  Status flush();
  Status reduce_rest();

  // reduce_to_parts.cpp
  Status reduce(PartBucket& bucket);
  Result<View> divided(const PartBucket& bucket);
  Status communicate(const View& wire, const std::vector<OwnedSlice>& slices);
  Status keep(const View& wire, const std::vector<OwnedSlice>& slices);
  Status open_part();
  Status add_on_host(const RankSet& owner, const View& fresh, const View& there);

  // gather_parts.cpp
  Status refresh();
  Status gather_parts();
  Status bring_part();
  Status gather(FlatBuffer& flat);
  Status gather_piece(const FlatBuffer& flat, Numel first, Numel numel);

  const Zero12Options options_;
  const Index ranks_;
  std::vector<PartedParameter> parameters_;  // by ParameterId
  FlatBuffer flat_, frozen_;                 // frozen_ may be empty
  CommunicatorId world_;
  StreamId reduce_, nccl_;  // reduce_ is compute_ unless reductions overlap

  std::vector<PartBucket> buckets_;  // while gradients are reduced
  std::size_t filled_ = 0;           // the one that is filled now
  BufferId part_;                    // of the gradient, from the first reduction to the step
  bool values_are_old_ = false;      // somebody else wrote the parts
  bool asked_for_no_sync_ = false;
};

}  // namespace tessera
