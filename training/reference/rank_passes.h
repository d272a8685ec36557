// SPDX-License-Identifier: Apache-2.0
// One rank's passes through a plan: its place in the step and the activations between modules.
//
// The idea: bodies arrive one module at a time, so the rank keeps a cursor. Outputs belong to
// visits, not to modules: a module that runs twice has two. Recomputation starts from the last
// output before the block.
#pragma once

#include <optional>

#include "training/reference/data.h"
#include "training/reference/plan.h"

namespace tessera::real {

class RankPasses {
 public:
  RankPasses(const Plan& plan, const RealModelOptions& options, const float& loss_scale, Rank rank);

  void run(ModuleId module, ModuleWork::Pass pass, std::int32_t micro_batch,
           const BodyContext& context);

  std::span<const float> losses() const { return losses_; }

 private:
  void begin(std::int32_t micro_batch);
  void forward(ModuleId module, std::int32_t micro_batch, const BodyContext& context);
  void recompute(ModuleId module, const BodyContext& context);
  void backward(ModuleId module, const BodyContext& context);

  void run_forward(std::size_t visit, const BodyContext& context);
  void forget_before(std::size_t last);
  const Tensor& output(int visit) const;
  Tensor input_of(const Visit& visit) const;
  void finish_forward();  // the loss

  const Plan& plan_;
  const RealModelOptions& options_;
  const float& loss_scale_;
  DataPlace place_;
  std::size_t next_ = 0;                     // visit of the forward pass
  std::size_t left_ = 0;                     // visits whose backward pass is to come
  std::optional<std::size_t> recomputing_;   // the visit that is recomputed next
  std::vector<Tensor> outputs_, gradients_;  // by visit; gradients of its output
  std::vector<float> losses_;                // of this step, by micro-batch
};

}  // namespace tessera::real
