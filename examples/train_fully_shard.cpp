// SPDX-License-Identifier: Apache-2.0
// Trains a tiny GPT-2 with fully_shard on four simulated ranks, with real numbers, and prints the
// loss. What a program with a model of its own does is the same, with bodies of its own.
#include <iostream>

#include "tessera/fully_shard.h"
#include "tessera/real_model.h"
#include "tessera/sim/cluster.h"
#include "tessera/sim/lockstep_runtime.h"

namespace tessera {
namespace {

constexpr const char* config = R"({
  "architectures": ["GPT2LMHeadModel"], "torch_dtype": "float32",
  "vocab_size": 11, "n_positions": 5, "n_embd": 8, "n_layer": 2, "n_head": 2})";
constexpr Rank ranks = 4;

Status train() {
  TESSERA_ASSIGN(const Model model, parse_model(config, "tiny GPT-2"));

  // Where it runs: all ranks of one simulated machine. `numerics` keeps their bytes for real.
  TESSERA_ASSIGN(const sim::Cluster cluster, sim::load_cluster("dgx-h100", /*nodes=*/1));
  const auto cost = sim::make_cost_model(cluster);
  TESSERA_ASSIGN(
      const auto runtime,
      sim::LockstepRuntime::create({.world_size = ranks, .cost = cost.get(), .numerics = true}));

  // What it computes: forward and backward passes, data and initial values.
  const RealModelOptions data{.batch = 2,
                              .sequence_length = 5,
                              .seed = 1,
                              .world_size = ranks,
                              .same_data_every_step = true};
  TESSERA_ASSIGN(const RealModel real, RealModel::create(model, data));

  // How it is sharded.
  TESSERA_ASSIGN(const auto engine, fully_shard(*runtime, model, {}));
  TESSERA_TRY(engine->initialise(real.initial_values()));

  const TrainingOptions training{.batch = data.batch,
                                 .sequence_length = data.sequence_length,
                                 .adam = {.learning_rate = 1e-2F},
                                 .body = real.bodies()};
  for (int step = 0; step < 10; ++step) {
    TESSERA_TRY(run_training_step(*engine, model, training));
    std::cout << "step " << step << " loss " << real.loss() << '\n';
  }
  return runtime->finish();
}

}  // namespace
}  // namespace tessera

int main() {
  const tessera::Status status = tessera::train();
  if (!status) std::cerr << status.message() << '\n';
  return status.ok() ? 0 : 1;
}
