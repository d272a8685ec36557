// SPDX-License-Identifier: Apache-2.0
#include "cli/train/host_program.h"

#include "tessera/sim/simulate.h"
#include "tessera/trainer.h"

namespace tessera::cli {
namespace {

// Only as many tokens as a sample has: nobody reads them.
Result<Corpus> no_data(std::int64_t sequence_length) {
  const std::string zeros(static_cast<std::size_t>(sequence_length) + 1, '\0');
  CorpusOptions options;
  options.format = TokenFormat::bytes;
  return Corpus::from_bytes(zeros, "no data", options);
}

Status check_trained(const TrainingOptions& step) {
  const auto refused = [](const char* what) {
    return Status(Code::not_supported, std::string("the program of tessera train has no ") + what);
  };
  if (!step.passes.empty()) return refused("--passes");
  if (step.checkpointing == ActivationCheckpointing::operators) {
    return refused("--checkpointing operators: choose full or none");
  }
  if (step.offload_activations > 0) return refused("--offload-activations");
  if (step.checkpoint_every > 1) return refused("--checkpoint-every");
  if (!step.checkpoint_blocks.empty()) return refused("--checkpoint-blocks");
  if (step.adam.states != 2) return refused("--optimizer-states: AdamW keeps 2");
  if (step.adam.state_type != StateType::int8) return {};
  return refused("--optimizer-dtype int8: its states are float32 or bfloat16");
}

class SimulatedTraining final : public sim::HostProgram {
 public:
  SimulatedTraining(const Model& model, Corpus corpus) : model_(model), corpus_(std::move(corpus)) {
    for (Parameter& parameter : model_.parameters) parameter.dtype = DType::float32;
  }

  Status begin(Runtime& runtime, const sim::SimulateOptions& options) {
    TrainerOptions of_trainer;
    of_trainer.scheme = options.scheme;
    of_trainer.step = options.training;
    of_trainer.dtype = compute_dtype(options.scheme);
    of_trainer.fp8 = options.stack.fp8;
    of_trainer.learning_rate.peak = options.training.adam.learning_rate;
    of_trainer.seed = options.seed;
    of_trainer.threads = static_cast<int>(options.stack.threads);
    TESSERA_ASSIGN(trainer_, Trainer::create(runtime, model_, corpus_, of_trainer));
    return {};
  }

  Engine& engine() override { return trainer_->engine(); }
  Status step() override { return trainer_->step().status(); }
  Status finish() override { return trainer_->finish(); }

 private:
  Model model_;
  Corpus corpus_;
  std::unique_ptr<Trainer> trainer_;
};

}  // namespace

sim::HostProgramMaker train_program() {
  return [](Runtime& runtime, const Model& model,
            const sim::SimulateOptions& options) -> Result<std::unique_ptr<sim::HostProgram>> {
    TESSERA_TRY(check_trained(options.training));
    TESSERA_ASSIGN(Corpus corpus, no_data(options.training.sequence_length));
    auto program = std::make_unique<SimulatedTraining>(model, std::move(corpus));
    TESSERA_TRY(program->begin(runtime, options));
    return std::unique_ptr<sim::HostProgram>(std::move(program));
  };
}

}  // namespace tessera::cli
