// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>

#include "engine/passes/pass_program.h"
#include "tessera/finite_step.h"
#include "tessera/summon.h"

namespace tessera {
namespace {

// The programs of a model's graphs. Each is made once, because finding all uses of parameters takes
// time that grows with the model.
class PassPrograms {
 public:
  PassPrograms(Engine& engine, const Model& model) : engine_(engine), model_(model) {}

  Result<PassProgram*> along(const std::string& graph) {
    auto found = programs_.find(graph);
    if (found == programs_.end()) {
      if (model_.find_graph(graph) == nullptr) return unknown(graph);
      found = programs_.try_emplace(graph, engine_, model_, graph).first;
    }
    return &found->second;
  }

  Status check(const Recompute& again) const { return check_recompute(model_, again); }

  Status check_offloaded(std::int32_t wanted) const {
    const auto blocks = std::count_if(model_.modules.begin(), model_.modules.end(),
                                      [](const Module& m) { return m.is_block; });
    if (wanted <= blocks) return {};
    return Status(
        Code::invalid_argument,
        fmt::format("offload_activations {}: {} has only {} blocks", wanted, model_.name, blocks));
  }

 private:
  Status unknown(const std::string& graph) const {
    std::string known;
    for (const Graph& g : model_.graphs) known += (known.empty() ? "" : ", ") + g.name;
    return Status(Code::invalid_argument,
                  fmt::format("{} has no graph '{}': its graphs are {}", model_.name, graph,
                              known.empty() ? "none" : known));
  }

  Engine& engine_;
  const Model& model_;
  std::map<std::string, PassProgram> programs_;  // by graph
};

class StepProgram {
 public:
  StepProgram(Engine& engine, PassPrograms& programs, const TrainingOptions& options)
      : engine_(engine), programs_(programs), options_(options) {}

  Status run() {
    if (options_.passes.empty()) {
      for (std::int32_t k = 0; k < options_.accumulation; ++k) {
        const bool last = k + 1 == options_.accumulation;
        TESSERA_TRY(train("", last || options_.sync_every_micro_batch));
      }
      return step();
    }
    for (std::size_t k = 0; k < options_.passes.size(); ++k) TESSERA_TRY(run(k));
    return {};
  }

 private:
  using Kind = TrainingPass::Kind;

  Status run(std::size_t k) {
    const TrainingPass& pass = options_.passes[k];
    switch (pass.kind) {
      case Kind::train:
        return train(pass.graph, last_before_step(k) || options_.sync_every_micro_batch);
      case Kind::accumulate: return train(pass.graph, false);
      case Kind::evaluate: return forward(pass.graph, ForwardPass::Use::evaluate);
      case Kind::forward: return forward(pass.graph, ForwardPass::Use::no_backward);
      case Kind::summon: return summon();
      case Kind::step: break;
    }
    return step();
  }

  // Whether gradients are reduced in this pass when only the last one before a step does so
  // (no_sync): later passes may evaluate, but must not train.
  bool last_before_step(std::size_t k) const {
    for (++k; k < options_.passes.size(); ++k) {
      if (options_.passes[k].trains()) return false;
      if (options_.passes[k].kind == Kind::step) return true;
    }
    return true;
  }

  Status train(const std::string& graph, bool reduces) {
    TESSERA_TRY(engine_.begin_training(options_.adam));
    engine_.set_requires_gradient_sync(reduces);
    TESSERA_ASSIGN(PassProgram* const program, programs_.along(graph));
    TESSERA_TRY(program->forward(options_, ForwardPass::Use::train, micro_batch_++));
    return program->backward();
  }

  Status forward(const std::string& graph, ForwardPass::Use use) {
    TESSERA_ASSIGN(PassProgram* const program, programs_.along(graph));
    return program->forward(options_, use, micro_batch_);
  }

  Status summon() {
    TESSERA_ASSIGN(const auto full, summon_full_params(engine_, {.writeback = false}));
    return full->close();
  }

  float most_norm() const {
    return options_.max_grad_norm > 0 ? options_.max_grad_norm
                                      : std::numeric_limits<float>::infinity();
  }

  // With a scaler it is the scaler who skips.
  Status step_if_finite() {
    TESSERA_ASSIGN(
        const bool finite,
        clip_finite_grad_norm(engine_, most_norm(), options_.norm_type, options_.grad_norm));
    if (finite) return engine_.step(options_.adam);
    options_.skipped();
    return skip_step(engine_);
  }

  Status step() {
    micro_batch_ = 0;
    GradScaler* const scaler = options_.scaler;
    if (options_.skipped && scaler == nullptr) return step_if_finite();
    if (options_.max_grad_norm > 0 || options_.grad_norm) {
      // The norm is that of the true gradients, so they are unscaled before they are clipped.
      if (scaler != nullptr) TESSERA_TRY(scaler->unscale());
      TESSERA_TRY(engine_.clip_grad_norm(most_norm(), options_.norm_type, options_.grad_norm));
    }
    if (scaler == nullptr) return engine_.step(options_.adam);
    TESSERA_TRY(scaler->step(options_.adam).status());
    return scaler->update();
  }

  Engine& engine_;
  PassPrograms& programs_;
  const TrainingOptions& options_;
  std::int32_t micro_batch_ = 0;
};

}  // namespace

class TrainingSteps::Programs {
 public:
  Programs(Engine& engine, const Model& model) : engine_(engine), programs_(engine, model) {}

  Status run(const TrainingOptions& options) {
    TESSERA_TRY(check(options));
    return StepProgram(engine_, programs_, options).run();
  }

 private:
  Status check(const TrainingOptions& options) const {
    const Recompute& again = options.recompute;
    if (options.offload_activations > 0 && options.memory) {
      return Status(Code::not_supported,
                    "offload_activations: memory that is planned before a run stays where it is");
    }
    TESSERA_TRY(programs_.check_offloaded(options.offload_activations));
    if (!again.any()) return {};
    if (options.body && !options.memory) {
      return Status(Code::not_supported,
                    fmt::format("recompute {}: bodies that say nothing of their memory keep all of "
                                "it",
                                to_text(again)));
    }
    if (options.checkpointing == ActivationCheckpointing::none) {
      return options.memory ? Status() : programs_.check(again);  // bodies know what they repeat
    }
    return Status(Code::invalid_argument,
                  fmt::format("recompute {}: blocks that are checkpointed keep nothing of it",
                              to_text(again)));
  }

  Engine& engine_;
  PassPrograms programs_;
};

TrainingSteps::TrainingSteps(Engine& engine, const Model& model)
    : programs_(std::make_unique<Programs>(engine, model)) {}
TrainingSteps::TrainingSteps(TrainingSteps&&) noexcept = default;
TrainingSteps::~TrainingSteps() = default;

Status TrainingSteps::run(const TrainingOptions& options) {
  if (options.batch < 1 || options.sequence_length < 1 || options.accumulation < 1) {
    return Status(Code::invalid_argument,
                  "batch, sequence length and accumulation must be at least 1");
  }
  const bool plain = options.adam.state_type != StateType::int8;
  if (options.body && (options.adam.states != 2 || !plain)) {
    return Status(Code::not_supported,
                  fmt::format("real numbers are stepped with AdamW, which keeps 2 states per "
                              "element in float32 or bfloat16, not {}{}",
                              options.adam.states, plain ? "" : " in 8 bits"));
  }
  return programs_->run(options);
}

Status run_training_step(Engine& engine, const Model& model, const TrainingOptions& options) {
  return TrainingSteps(engine, model).run(options);
}

}  // namespace tessera
