// SPDX-License-Identifier: Apache-2.0
// Trains a tiny GPT-2 with replicate (DDP) on four simulated ranks, with real numbers: gradients
// are all-reduced in half the bytes, and one rank runs out of inputs before the others.
#include <iostream>

#include "tessera/join.h"
#include "tessera/real_model.h"
#include "tessera/replicate.h"
#include "tessera/sim/cluster.h"
#include "tessera/sim/lockstep_runtime.h"

namespace tessera {
namespace {

constexpr const char* config = R"({
  "architectures": ["GPT2LMHeadModel"], "torch_dtype": "float32",
  "vocab_size": 11, "n_positions": 5, "n_embd": 8, "n_layer": 2, "n_head": 2})";
constexpr Rank ranks = 4;
constexpr int steps = 10;
constexpr int steps_of_last_rank = 8;

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

  // How gradients are averaged: buckets of at least 2 KiB, which are sent as bfloat16.
  TESSERA_ASSIGN(const auto engine, replicate(*runtime, model,
                                              {.bucket_cap = Bytes{2 << 10},
                                               .first_bucket_cap = Bytes{1 << 10},
                                               .gradient_as_bucket_view = true,
                                               .comm_hook = bf16_compress_hook()}));
  TESSERA_TRY(engine->initialise(real.initial_values()));

  const TrainingOptions training{.batch = data.batch,
                                 .sequence_length = data.sequence_length,
                                 .adam = {.learning_rate = 1e-2F},
                                 .body = real.bodies()};
  TESSERA_ASSIGN(Join join, Join::enter(*engine, {.divide_by_initial_world_size = false}));
  for (int step = 0; step < steps; ++step) {
    TESSERA_TRY(join.step(RankSet::all(step < steps_of_last_rank ? ranks : ranks - 1)));
    TESSERA_TRY(run_training_step(*engine, model, training));
    std::cout << "step " << step << " loss " << real.losses(0)[0] << '\n';
  }
  TESSERA_TRY(join.finish());
  for (const UnitInfo& bucket : engine->units()) {
    std::cout << bucket.name << ": " << bucket.parameters << " parameters\n";
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
