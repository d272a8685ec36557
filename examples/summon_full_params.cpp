// SPDX-License-Identifier: Apache-2.0
// Trains a tiny GPT-2 with fsdp1 on four simulated ranks, then looks at a full parameter on rank 0,
// changes it there, and makes the change everybody's.
#include <iostream>

#include "tessera/fsdp1.h"
#include "tessera/real_model.h"
#include "tessera/sim/cluster.h"
#include "tessera/sim/lockstep_runtime.h"
#include "tessera/summon.h"

namespace tessera {
namespace {

constexpr const char* config = R"({
  "architectures": ["GPT2LMHeadModel"], "torch_dtype": "float32",
  "vocab_size": 11, "n_positions": 5, "n_embd": 8, "n_layer": 2, "n_head": 2})";
constexpr Rank ranks = 4;
constexpr const char* name = "h.0.ln_1.weight";

Status print(FullParams& full, ParameterId id, const char* when) {
  return full.read(id, [when](Rank, std::span<const float> values) {
    std::cout << name << ' ' << when;
    for (float value : values) std::cout << ' ' << value;
    std::cout << '\n';
  });
}

Status train_and_edit() {
  TESSERA_ASSIGN(const Model model, parse_model(config, "tiny GPT-2"));
  TESSERA_ASSIGN(const sim::Cluster cluster, sim::load_cluster("dgx-h100", /*nodes=*/1));
  const auto cost = sim::make_cost_model(cluster);
  TESSERA_ASSIGN(
      const auto runtime,
      sim::LockstepRuntime::create({.world_size = ranks, .cost = cost.get(), .numerics = true}));
  const RealModelOptions data{.batch = 2, .sequence_length = 5, .seed = 1, .world_size = ranks};
  TESSERA_ASSIGN(const RealModel real, RealModel::create(model, data));
  TESSERA_ASSIGN(const auto engine, fsdp1(*runtime, model, {}));
  TESSERA_TRY(engine->initialise(real.initial_values()));
  const TrainingOptions training{
      .batch = data.batch, .sequence_length = data.sequence_length, .body = real.bodies()};
  for (int step = 0; step < 3; ++step) {
    TESSERA_TRY(run_training_step(*engine, model, training));
  }

  // Only the unit h.0 is gathered, and only rank 0 keeps it.
  const ParameterId id = model.find_parameter(name);
  const SummonOptions options{.root = "h.0", .rank0_only = true};
  TESSERA_ASSIGN(const auto full, summon_full_params(*engine, options));
  TESSERA_TRY(print(*full, id, "before"));
  TESSERA_TRY(full->modify(id, [](Rank, std::span<float> values) {
    for (float& value : values) value = 1;
  }));
  TESSERA_TRY(full->commit());  // without it the shards stay as they were
  TESSERA_TRY(full->close());

  // Every unit in turn, to be read on rank 0: what saving a checkpoint would do.
  TESSERA_TRY(for_each_unit(*engine, {.writeback = false, .rank0_only = true},
                            [&](const std::string& unit, FullParams& one) {
                              return unit == "h.0" ? print(one, id, "after") : Status{};
                            }));
  TESSERA_TRY(run_training_step(*engine, model, training));
  return runtime->finish();
}

}  // namespace
}  // namespace tessera

int main() {
  const tessera::Status status = tessera::train_and_edit();
  if (!status) std::cerr << status.message() << '\n';
  return status.ok() ? 0 : 1;
}
