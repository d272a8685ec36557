// SPDX-License-Identifier: Apache-2.0
// The host program for models that are only known by shape and cost: runs training steps through an
// Engine, in the model's own execution order.
//
//   TrainingOptions options{.batch = 1, .sequence_length = 8192};
//   TESSERA_TRY(run_training_step(*engine, model, options));
//
//   TrainingSteps steps(*engine, model);   // the same for many
//   for (int k = 0; k < 100; ++k) TESSERA_TRY(steps.run(options));
//
// A step can also be listed pass by pass: extra forward passes, evaluation, other graphs of the
// model, gradients of several passes added up.
//
//   options.passes = {{.kind = TrainingPass::Kind::evaluate},
//                     {.kind = TrainingPass::Kind::train, .graph = "short"},
//                     {.kind = TrainingPass::Kind::step}};
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/engine.h"
#include "tessera/grad_scaler.h"
#include "tessera/option.h"
#include "tessera/recompute.h"

namespace tessera {

/// One part of a step.
struct TrainingPass {
  enum class Kind : std::uint8_t {
    train,       // forward and backward
    evaluate,    // forward in eval mode under no_grad
    forward,     // forward in training mode, whose outputs are thrown away
    step,        // the optimizer
    accumulate,  // as train, but nothing is reduced (no_sync)
    summon,      // full parameters are gathered, and freed: what a full state dict costs
  };
  Kind kind = Kind::train;
  std::string graph;  // of Model::graphs; empty: Model::forward
  bool trains() const { return kind == Kind::train || kind == Kind::accumulate; }
};

/// The exact memory of one module in one pass, per micro-batch.
struct ModuleMemory {
  Bytes saves{};      // of forward, and the same in recompute and backward
  Bytes temporary{};  // alive only while it runs
  std::vector<View> workspace = {};
};

struct TrainingOptions {
  std::int64_t batch = 1;                 // sequences per rank and micro-batch
  std::int64_t sequence_length = 1;       // tokens per sequence
  std::int32_t accumulation = 1;          // micro-batches per step
  std::vector<TrainingPass> passes = {};  // instead of `accumulation` times train, then step
  bool sync_every_micro_batch = true;     // false: reduce only in the last one (no_sync)
  ActivationCheckpointing checkpointing = ActivationCheckpointing::none;
  std::int32_t checkpoint_every = 1;  // of so many blocks, the first is checkpointed
  /// Only blocks that one of these names: paths, in which * is any text without a dot and ** any,
  /// or classes. Empty: all. `checkpointed_blocks` (wrap.h) lists what a policy chooses
  /// [apply_activation_checkpointing].
  std::vector<std::string> checkpoint_blocks = {};
  /// Of blocks that are not checkpointed. Given `body` or `memory`, it is these that do it, and the
  /// cost of backward alone says so.
  Recompute recompute = {};
  KeptActivations kept = {};             // what the costs of the model's modules mean
  std::int32_t offload_activations = 0;  // of so many blocks they wait in host memory
  AdamOptions adam = {};
  float max_grad_norm = 0;  // above 0: clips the gradients' norm before every step
  double norm_type = 2;     // 1, 2 or infinity
  /// Gradients of tied parameters are added in place; autograd adds into a third copy.
  bool sums_in_place = false;
  /// Real numbers: gets every rank's norm of the gradients, before they are clipped. Without
  /// max_grad_norm the norm is only computed.
  std::function<void(Rank, float)> grad_norm = {};
  /// Real numbers: steps whose norm of gradients is no finite number are skipped on all ranks, and
  /// this is called before. The host waits for every norm.
  std::function<void()> skipped = {};
  /// Scales the loss: it steps, or skips, and then updates. The bodies multiply by its scale.
  GradScaler* scaler = nullptr;
  /// Real numbers: the body of a module's pass, or nothing. Asked in training passes and, with
  /// Pass::evaluate, in those that evaluate; the micro-batches of a step are those that train,
  /// counted over all graphs.
  std::function<std::function<void(const BodyContext&)>(ModuleId, ModuleWork::Pass,
                                                        std::int32_t micro_batch)>
      body = {};
  bool on_device = false;  // ModuleWork::on_device, of all bodies
  std::function<Repeated(ModuleId, ModuleWork::Pass)> repeated = {};  // ModuleWork::repeated
  /// Real numbers: what a body needs, instead of what the model's costs estimate. Given, bodies are
  /// asked for checkpointed blocks, too: forward keeps the block's input in what it saves,
  /// recompute restores it from there (Engine::keep_activations).
  std::function<ModuleMemory(ModuleId, ModuleWork::Pass)> memory = {};
};

/// The members that a user may choose: all but functions and what real numbers need.
const OptionFamily& training_options();
/// Their values, so that a trace says how to make it again.
OptionValues options_of(const TrainingOptions& options);
/// Fails: invalid_argument (no such option, a value that it cannot have), naming it.
Status set_option(TrainingOptions& options, std::string_view name, const OptionValue& value);

/// Forward and backward for every micro-batch, then the optimizer; or `passes`.
/// Fails: invalid_argument (no such graph), not_supported (a pass that the scheme has not:
/// Engine::next_forward), and what the engine's calls fail with.
Status run_training_step(Engine& engine, const Model& model, const TrainingOptions& options);

/// Steps of one engine: what follows from the model is worked out once, in the first step that
/// needs it. Options may differ from step to step.
class TrainingSteps {
 public:
  /// Both must outlive the steps, and the model stays as it is.
  TrainingSteps(Engine& engine, const Model& model);
  TrainingSteps(TrainingSteps&&) noexcept;
  ~TrainingSteps();

  /// As run_training_step.
  Status run(const TrainingOptions& options);

 private:
  class Programs;
  std::unique_ptr<Programs> programs_;
};

}  // namespace tessera
