// SPDX-License-Identifier: Apache-2.0
// Walks one execution order of a model and calls the engine where a framework's hooks would fire.
#pragma once

#include <span>
#include <vector>

#include "engine/model/frozen_share.h"
#include "engine/model/gradient_flow.h"
#include "engine/passes/module_kernels.h"
#include "engine/passes/ready_order.h"
#include "engine/passes/recomputed.h"
#include "tessera/training.h"

namespace tessera {

class PassProgram {
 public:
  /// A program along `graph`. Both references must outlive it. REQUIRES: the model has the graph.
  PassProgram(Engine& engine, const Model& model, const std::string& graph);

  /// `micro_batch` counts the training passes of the step. `options` must outlive the pass, and its
  /// backward pass.
  Status forward(const TrainingOptions& options, ForwardPass::Use use, std::int32_t micro_batch);
  Status backward();

 private:
  using Pass = ModuleWork::Pass;

  const Module& module(ModuleId id) const { return model_.module(id); }
  std::vector<ModuleId> chain(ModuleId id) const;  // root ... id
  std::span<const ModuleId> above(std::size_t entry, std::size_t next) const;
  bool checkpointed(ModuleId id) const;
  bool keeps() const { return use_ == ForwardPass::Use::train; }
  // A forward pass whose outputs are thrown away needs no numbers.
  bool computes() const { return options_->body && use_ != ForwardPass::Use::no_backward; }
  Pass forward_pass() const { return keeps() ? Pass::forward : Pass::evaluate; }
  const std::vector<ParameterId>& reads(ModuleId container) const;
  Bytes per_batch(const Polynomial& bytes) const;
  ModuleWork work(std::size_t entry, Pass pass) const;
  bool known_by_costs() const;
  std::vector<ParameterId> summed_by(ModuleId id) const;
  bool ends_in_loss(std::size_t entry) const;
  ModuleWork layer(std::size_t entry, Pass pass) const;
  ModuleWork loss(std::size_t entry, Pass pass) const;
  ModuleWork priced(std::size_t entry, Pass pass, const ModuleCost& cost) const;
  ModuleId block_of(ModuleId id) const;  // the one that holds it; none: invalid
  bool offloads(ModuleId id, Pass pass) const;
  Bytes remembered(ModuleId id) const;
  Bytes unneeded(ModuleId id, const ModuleCost& cost) const;
  Recomputed not_kept(ModuleId id) const;
  void unpack(ModuleId id, ModuleWork& out) const;
  Status compute_again(std::size_t entry);
  ModuleWork block_input(ModuleId block, Pass pass) const;

  Status choose(const std::vector<std::string>& blocks);
  Status enter_forward(ModuleId id);
  Status compute_forward(std::size_t entry);
  Status read(ModuleId container, Pass pass);
  Status recompute(ModuleId block, std::size_t last);
  Status enter_backward(ModuleId id, std::size_t entry);
  Status leave_backward(ModuleId id);
  Status gradients_ready(const std::vector<ParameterId>& used);

  Engine& engine_;
  const Model& model_;
  const std::string graph_;
  const std::vector<ModuleId>& forward_;
  std::vector<std::vector<ModuleId>> chains_;  // of each of them
  std::vector<std::size_t> kept_open_;         // of each: modules that the entry before leaves open
  const GradientFlow flow_;
  const std::vector<std::vector<ParameterId>> used_;   // by ModuleId
  const std::vector<std::vector<ParameterId>> reads_;  // by ModuleId, of containers
  const std::vector<std::vector<ParameterId>> said_;   // those of Model::reads alone
  const FrozenShare frozen_;
  const std::vector<std::vector<ParameterId>> ready_;  // by ModuleId
  std::vector<std::int32_t> outputs_;                  // by ModuleId, that need a gradient
  std::vector<std::int32_t> blocks_;                   // by ModuleId: how many came before it
  std::vector<std::string> chosen_by_;                 // TrainingOptions::checkpoint_blocks
  std::vector<bool> chosen_;                           // by ModuleId: blocks that they name
  const TrainingOptions* options_ = nullptr;           // of the pass, as the rest
  ForwardPass::Use use_ = ForwardPass::Use::train;
  std::int32_t micro_batch_ = 0;
  std::vector<std::int32_t> uses_left_;  // by ParameterId: backward passes until it is complete
  std::vector<std::int32_t> uses_;       // the same at the begin of backward
  std::vector<ModuleId> open_;
};

}  // namespace tessera
