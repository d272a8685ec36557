// SPDX-License-Identifier: Apache-2.0
// The calls of a host program: the points of a training step at which sharding has something to do.
//
// The idea: PyTorch drives its schemes from autograd hooks; a program without autograd calls the
// same points itself. Every scheme (fully_shard, fsdp1, replicate, sharded_data_parallel, zero12,
// zero3) is an Engine, so the host program does not change with the scheme.
//
// clang-format off
//   TESSERA_ASSIGN(auto engine, fully_shard(runtime, model, options));
//   engine->begin_forward();
//   for (ModuleId m : model.forward) {
//     engine->pre_forward(m);
//     engine->compute({.module = m, ...});
//     engine->post_forward(m);
//   }
//   engine->begin_backward();
//   ... the same in reverse with pre_backward, compute, grad_ready, post_backward ...
//   engine->end_backward();
//   engine->step({});
// clang-format on
//
// `pre_*` and `post_*` may be called for any module; modules that are no sharding unit are ignored.
// Every function fails with what the runtime reports; after a failure the engine is only fit for
// being destroyed. Calls out of order are invalid_argument, naming call and module.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tessera/model.h"
#include "tessera/param_group.h"
#include "tessera/runtime.h"

namespace tessera {

/// The work of one module in one pass.
struct ModuleWork {
  enum class Pass : std::uint8_t {
    forward,
    backward,
    recompute,
    evaluate,  // forward without a backward to follow: nothing is kept for it
  };
  ModuleId module;
  Pass pass = Pass::forward;
  ComputeCost cost;
  Bytes saves{};      // forward, recompute: activations kept for this module's backward
  Bytes temporary{};  // alive only while it runs
  /// Views of one rank. Forward: read(k) is the k-th parameter of the module and its descendants
  /// (pre-order). Backward: read(k) likewise and write(k) its gradient, zero before the first of
  /// this backward pass; bodies add to it. Frozen parameters have no entry in write.
  /// Then, where there are any: in write the temporary memory, in forward and recompute the
  /// activations that it saves, and the workspace; in backward the saved activations are the last
  /// of read. All of it as it was left.
  std::function<void(const BodyContext&)> body;
  /// The body reaches its views by kernels alone, or launches work on the device itself. Otherwise
  /// it gets copies in the host's memory where memory is a device's.
  bool on_device = false;
  Repeated repeated = {};
  /// Buffers of the host program that the body reads and writes, on all ranks.
  std::vector<View> workspace;
  /// Not empty: the work concerns these parameters instead, in this order. So a module computes
  /// beside those below it, or with a parameter that it only reads (Model::reads).
  std::vector<ParameterId> only;
  bool no_parameters = false;  // the work concerns none of the module's
  bool offloads = false;       // what it saves waits in host memory until backward
  /// Backward: parameters of which a module before has left a gradient in this pass. As in torch
  /// that one, the new one and their sum are there at once.
  std::vector<ParameterId> summed;
};

/// A forward pass: its purpose and its direction.
struct ForwardPass {
  enum class Use : std::uint8_t {
    train,        // a backward pass follows
    no_backward,  // training mode, but its outputs are thrown away
    evaluate,     // eval mode under no_grad
  };
  Use use = Use::train;
  std::string graph;  // of Model::graphs; empty: Model::forward
};

/// A sharding unit, for reports.
struct UnitInfo {
  std::string name;
  std::int32_t parameters = 0;
  Numel numel{};      // without padding
  Numel unsharded{};  // with what aligns parameters, without what equals shards
  Numel padding{};    // all of it, over the ranks that shard together
  Numel shard{};      // per rank
};

class GradientReducer;
class ShardedState;
struct Recording;

/// The order of a training step: forward and backward passes over modules.
class TrainingPasses {
 public:
  virtual ~TrainingPasses() = default;

  /// Says what the next forward pass is; without this call it trains along Model::forward. A pass
  /// that is not for training ends with the root's post_forward and leaves nothing behind. Fails:
  /// invalid_argument (no such graph; in forward or backward), not_supported (a graph where the
  /// scheme has only one order).
  virtual Status next_forward(const ForwardPass& pass) = 0;
  virtual Status begin_forward() = 0;
  virtual Status pre_forward(ModuleId module) = 0;
  virtual Status post_forward(ModuleId module) = 0;
  virtual Status begin_backward() = 0;
  /// Once per output of the module; for most schemes the first is enough.
  virtual Status pre_backward(ModuleId module) = 0;
  virtual Status grad_ready(ParameterId parameter) = 0;
  virtual Status post_backward(ModuleId module) = 0;
  virtual Status end_backward() = 0;

  /// Activation checkpointing runs the forward of `module` again, in backward and before its own
  /// backward. In between, pre_forward and post_forward of it do nothing, and of modules below only
  /// in zero3: what pre_backward gathered is used, nothing is gathered twice, prefetched or freed.
  virtual Status recompute_begin(ModuleId module) = 0;
  virtual Status recompute_end(ModuleId module) = 0;

  /// Whether the following backward passes reduce gradients; false accumulates them unsharded.
  virtual void set_requires_gradient_sync(bool sync) = 0;
};

/// Running modules and keeping what they save for backward.
class ModuleExecution {
 public:
  virtual ~ModuleExecution() = default;

  /// Runs the work of a module, in the passes above between its pre_* and post_*. What it saves is
  /// allocated in forward and recompute, and freed after the module's backward.
  virtual Status compute(const ModuleWork& work) = 0;
  /// Keeps what a module saves outside its own passes (the input of a checkpointed block), which
  /// the body, if there is one, writes; the body of `restore_activations` reads the youngest, and
  /// `free_activations` gives it back. Parameters are no part of either.
  virtual Status keep_activations(const ModuleWork& work) = 0;
  virtual Status restore_activations(const ModuleWork& work) = 0;
  virtual Status free_activations(ModuleId module) = 0;

  /// The stream that modules run on. Work of the host program that reads what they left belongs
  /// there.
  virtual StreamId compute_stream() const = 0;
};

/// Stepping parameters: groups, clipping, AdamW.
class Optimizer {
 public:
  virtual ~Optimizer() = default;

  /// Comes before the first training pass. Schemes whose optimizers make their states when they are
  /// made (zero1, zero2, zero3) have them from here on, before activations lie around them; others,
  /// and programs without this call, from the first step on.
  virtual Status begin_training(const AdamOptions& /*options*/) { return {}; }
  /// The optimizer step and zero_grad(set_to_none=True). Ends the step. Fails: invalid_argument,
  /// for numbers of `options` below 0 or not finite, and betas of 1 and more.
  virtual Status step(const AdamOptions& options) = 0;

  /// Instead of one group with every parameter, before the first step. Fails: invalid_argument
  /// (after a step; no such parameter; one in two groups; numbers that `step` refuses), naming it.
  virtual Status set_param_groups(const std::vector<ParamGroup>& groups) = 0;
  /// Parameters that were in no group so far, at any time between two steps. Nothing that others
  /// have changes. Fails: as above, and while a gradient waits for its step.
  virtual Status add_param_group(const ParamGroup& group) = 0;
  /// Settings of group `group` that differ from those of `step`, from the next step on.
  virtual Status set_adam(std::size_t group, const AdamOverrides& adam) = 0;
  virtual const std::vector<ParamGroup>& param_groups() const = 0;

  /// Scales all gradients by max_norm / (norm + 1e-6) if that is below 1, before `step`. The norm
  /// is that of all trained parameters together, as if nothing were sharded; `norm_type` is 1, 2 or
  /// infinity. Calls `total`, if given, with every rank's norm where numbers are real: when the
  /// operation runs, which is before the next `wait`, `read` or `finish` of the runtime returns.
  /// Fails: not_supported (another norm), invalid_argument (in forward or backward).
  virtual Status clip_grad_norm(float max_norm, double norm_type,
                                const std::function<void(Rank, float)>& total) = 0;
};

/// A model under a sharding scheme.
class Engine : public TrainingPasses, public ModuleExecution, public Optimizer {
 public:
  /// Sets every element of every parameter: value(parameter, flat index). For real numbers only.
  virtual Status initialise(const std::function<float(ParameterId, Numel)>& value) = 0;
  /// Calls `read` with rank r's shard of `parameter`: (rank, first flat index, values).
  virtual Status inspect_shards(
      ParameterId parameter,
      const std::function<void(Rank, Numel, std::span<const float>)>& read) = 0;

  virtual std::vector<UnitInfo> units() const = 0;
  /// Options that were understood otherwise than asked for, one sentence each.
  virtual std::vector<std::string> warnings() const { return {}; }

  /// A recording of this engine in the notation of the runs that its scheme was compared with
  /// (to_fsdp_notation and its like); nothing, if there were none.
  virtual std::vector<std::string> notation(const Recording& /*recording*/) const { return {}; }

  /// The state that summon_full_params, checkpoints and gradient scalers work on
  /// (engine/base/sharded_state.h). nullptr: they fail with not_supported.
  virtual ShardedState* sharded_state() { return nullptr; }
  /// The reducer of `replicate`, which Join and communication hooks work on. nullptr: they fail
  /// with invalid_argument.
  virtual GradientReducer* gradient_reducer() { return nullptr; }
};

}  // namespace tessera
