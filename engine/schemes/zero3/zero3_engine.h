// SPDX-License-Identifier: Apache-2.0
// The host calls of ZeRO-3 in a pass, and their order. What they do is done by the parts
// (zero3_parts.h): the policy gathers and frees, the bucket reduces.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "engine/schemes/zero3/zero3_shards.h"

namespace tessera {

class Zero3Engine final : public Zero3Shards, public Zero3 {
 public:
  Zero3Engine(Runtime& runtime, const Model& model, const Zero3Options& options,
              const RankGroups& groups)
      : Zero3Shards(runtime, model, options, groups) {}
  Status setup() { return Zero3Shards::setup(); }

  Status begin_training(const AdamOptions& options) override { return optimizer_.begin(options); }
  Status begin_forward() override;
  Status pre_forward(ModuleId module) override;
  Status post_forward(ModuleId module) override;
  Status begin_backward() override;
  Status pre_backward(ModuleId module) override;
  Status grad_ready(ParameterId parameter) override;
  Status post_backward(ModuleId module) override;
  Status end_backward() override;
  Status compute(const ModuleWork& work) override;
  void set_requires_gradient_sync(bool sync) override { asked_for_no_sync_ |= !sync; }
  std::vector<UnitInfo> units() const override;
  std::vector<std::string> notation(const Recording& recording) const override {
    return to_deepspeed_notation(recording, parameters());
  }
  std::vector<std::string> warnings() const override;

  Status register_external_parameter(ModuleId module, ParameterId parameter) override;
  Status unregister_external_parameter(ModuleId module, ParameterId parameter) override;
  Status touch(ParameterId parameter) override;
  Status return_parameter(ParameterId parameter) override;
  Status partition_all_parameters() override;
  std::vector<PartitionedParameter> parameters() const override;
  std::vector<LiveParameter> live() const override { return parts_.policy->live(); }
  Bytes live_bytes() const override { return parts_.memory.live(); }
  std::optional<Bytes> live_budget() const override { return parts_.policy->budget(); }

 private:
  bool runs_any_graph() const override { return true; }
  Result<View> parameter_view(ParameterId id) override { return parts_.mover.view(id); }
  Result<View> gradient_view(ParameterId id) override { return parts_.bucket.view(id); }

  Status start_forward();

  bool asked_for_no_sync_ = false;
};

}  // namespace tessera
