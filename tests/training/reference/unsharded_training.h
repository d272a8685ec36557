// SPDX-License-Identifier: Apache-2.0
// Data-parallel training without engine and runtime, which every sharding scheme must equal to the
// bit. Every rank sees one full copy of the parameters.
//
//   UnshardedTraining reference(model, {.batch = 2, .world_size = 4}, {.accumulation = 2});
//   reference.step();
//   reference.values(parameter);
//
// A rank's gradient of a micro-batch is what the bodies add up, in param_dtype. It is cast to
// reduce_dtype and divided by `pre`; the ranks of a group are summed in rank order in float32, and
// the sum is divided by `group_post` and rounded to reduce_dtype; the groups' results are summed in
// order and divided by `post`. Micro-batches are added up after that, or before if only the last
// one synchronises. Then AdamW in float32, with the engine's order of operations.
//
// Parameters that no module of the forward list uses have gradient zero here.
#pragma once

#include <optional>
#include <vector>

#include "tessera/real_model.h"

namespace tessera::test {

struct UnshardedOptions {
  std::int32_t accumulation = 1;
  bool sync_every_micro_batch = true;
  AdamOptions adam;
  float pre = 1;         // what gradients are divided by before the sum over ranks
  Index group = 0;       // consecutive ranks that are summed first; 0: all
  float group_post = 1;  // what a group's sum is divided by
  float post = 0;  // and the sum of all; 0: the number of ranks, which with pre = 1 is the average
  /// As DDP: shares of 1 / ranks are summed, and .grad goes into the next micro-batch's reduction.
  bool carries_gradient = false;
  /// Shares of 1 / ranks are summed instead of dividing by `pre`; a product may differ in its last
  /// bit from the quotient.
  bool sums_shares = false;
  DType param_dtype = DType::float32;
  DType reduce_dtype = DType::float32;
};

class UnshardedTraining {
 public:
  /// REQUIRES: RealModel supports `model`, which outlives this.
  UnshardedTraining(const Model& model, const RealModelOptions& data,
                    const UnshardedOptions& options);

  /// Forward and backward of every micro-batch on every rank, then the optimizer.
  void step();
  /// requires_grad has changed; the data begin anew.
  void refresh();

  const std::vector<float>& values(ParameterId parameter) const;
  /// The gradient that the optimizer used in the last step.
  const std::vector<float>& gradient(ParameterId parameter) const;
  float loss() const { return real_.loss(); }
  std::span<const float> losses(Rank rank) const { return real_.losses(rank); }
  /// From the next step on. At first there is one group with all parameters.
  void set_groups(std::vector<ParamGroup> groups) { groups_ = std::move(groups); }
  void set_value(ParameterId parameter, std::size_t element, float value);

 private:
  using Numbers = std::vector<std::vector<float>>;      // by ParameterId
  using Buffers = std::vector<std::vector<std::byte>>;  // by ParameterId, in param_dtype

  void run_passes(Rank rank, std::int32_t micro_batch, Buffers& gradients);
  void run_body(Rank rank, ModuleId module, ModuleWork::Pass pass, std::int32_t micro_batch,
                Buffers& gradients);
  Numbers reduced(const std::vector<Numbers>& by_rank) const;
  void step_carrying();
  Numbers fresh_gradients(Rank rank, std::int32_t micro_batch);
  void adam();
  void adam(std::size_t parameter, const AdamOptions& options);
  float rounded(float value) const;  // to reduce_dtype

  const Model& model_;
  const RealModelOptions data_;
  const Rank ranks_;
  const UnshardedOptions options_;
  RealModel real_;
  std::vector<std::vector<ParameterId>> used_;  // by ModuleId
  Numbers values_, gradients_, exp_avg_, exp_avg_sq_;
  Buffers seen_;                     // values_ as the bodies see them
  std::vector<std::int64_t> steps_;  // by ParameterId
  std::optional<std::vector<ParamGroup>> groups_;
};

}  // namespace tessera::test
