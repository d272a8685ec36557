// SPDX-License-Identifier: Apache-2.0
// fully_shard with real models and real data: after ten steps of AdamW every shard is what
// unsharded training gives, to the bit.
#include <catch2/catch.hpp>

#include "tessera/fully_shard.h"
#include "tessera/sim/lockstep_runtime.h"
#include "tests/sim/test_costs.h"
#include "tests/training/reference/equal_shards.h"
#include "tests/training/reference/real_models.h"
#include "tests/training/reference/unsharded_training.h"

namespace tessera {
namespace {

using test::UnshardedTraining;

struct Scenario {
  const char* name;
  Model model;
  RealModelOptions data;
  TrainingOptions training;
  FullyShardOptions sharding;
};

void check_scenario(Scenario s, int steps = 10) {
  INFO(s.name << ", ranks " << s.data.world_size << ", micro-batches " << s.training.accumulation
              << ", checkpointing " << static_cast<int>(s.training.checkpointing));
  const test::TestCosts costs;
  auto runtime = sim::LockstepRuntime::create(
      {.world_size = s.data.world_size, .cost = &costs, .numerics = true});
  REQUIRE(runtime.ok());
  auto engine = fully_shard(**runtime, s.model, s.sharding);
  INFO(engine.status().message());
  REQUIRE(engine.ok());
  s.data.checkpointing = s.training.checkpointing;
  auto real = RealModel::create(s.model, s.data);
  INFO(real.status().message());
  REQUIRE(real.ok());
  REQUIRE((*engine)->initialise(real->initial_values()).ok());
  s.training.batch = s.data.batch;
  s.training.sequence_length = s.data.sequence_length;
  s.training.body = real->bodies();
  UnshardedTraining reference(s.model, s.data,
                              {.accumulation = s.training.accumulation,
                               .sync_every_micro_batch = s.training.sync_every_micro_batch,
                               .adam = s.training.adam,
                               .param_dtype = s.sharding.param_dtype,
                               .reduce_dtype = s.sharding.reduce_dtype});
  for (int step = 0; step < steps; ++step) {
    const Status status = run_training_step(**engine, s.model, s.training);
    INFO(status.message());
    REQUIRE(status.ok());
    reference.step();
    CHECK(real->loss() == reference.loss());
  }
  test::check_equal(**engine, s.model, reference);
  const Status status = (*runtime)->finish();
  INFO(status.message());
  CHECK(status.ok());
}

Scenario scenario(int number) {
  switch (number) {
    case 0: return {"mlp", test::mlp_chain(), {.batch = 4}, {}, {}};
    case 1: return {"gpt2", test::tiny_gpt2(), {.batch = 2, .sequence_length = 5}, {}, {}};
    case 2: return {"untied", test::tiny_gpt2(false), {.sequence_length = 6}, {}, {}};
    case 3: return {"repeated", test::repeated(), {.batch = 3}, {}, {}};
    default: return {"frozen", test::frozen_and_tied(), {.batch = 2, .sequence_length = 3}, {}, {}};
  }
}

TEST_CASE("fully_shard trains as unsharded training does", "[numerics]") {
  Scenario s = scenario(GENERATE(range(0, 5)));
  s.data.world_size = static_cast<Rank>(GENERATE(range(1, 9)));
  s.data.seed = static_cast<std::uint64_t>(s.data.world_size);
  s.training.adam.weight_decay = s.data.world_size % 2 == 0 ? 0.1F : 0.0F;
  s.training.checkpointing = GENERATE(ActivationCheckpointing::none, ActivationCheckpointing::full);
  check_scenario(s);
}

TEST_CASE("accumulation, with and without synchronising every micro-batch", "[numerics]") {
  Scenario s = scenario(GENERATE(range(0, 5)));
  s.data.world_size = GENERATE(1, 3);
  s.training.accumulation = GENERATE(2, 3);
  s.training.sync_every_micro_batch = GENERATE(true, false);
  s.training.checkpointing = GENERATE(ActivationCheckpointing::none, ActivationCheckpointing::full);
  check_scenario(s);
}

TEST_CASE("resharding, and units other than the blocks", "[numerics]") {
  Scenario s = scenario(1);
  s.data.world_size = 3;
  s.sharding.reshard_after_forward =
      GENERATE(ReshardAfterForward::always, ReshardAfterForward::never);
  s.sharding.units = GENERATE(std::vector<std::string>{"h.0", "ln_f"},
                              std::vector<std::string>{"h.0.attn", "h.1.mlp", "ln_f"});
  check_scenario(s);
}

TEST_CASE("bfloat16 parameters and reductions", "[numerics]") {
  Scenario s = scenario(GENERATE(0, 1, 4));
  s.data.world_size = GENERATE(1, 4);
  s.sharding.param_dtype = DType::bfloat16;
  s.sharding.reduce_dtype = GENERATE(DType::float32, DType::bfloat16);
  s.training.accumulation = GENERATE(1, 2);
  s.training.sync_every_micro_batch = GENERATE(true, false);
  check_scenario(s);
}

TEST_CASE("checkpointing recomputes every visit to a block once", "[numerics]") {
  const Model model = test::repeated();
  const test::TestCosts costs;
  auto runtime = sim::LockstepRuntime::create({.cost = &costs, .numerics = true});
  REQUIRE(runtime.ok());
  auto engine = fully_shard(**runtime, model, {});
  REQUIRE(engine.ok());
  std::vector<std::string> recomputed;
  TrainingOptions training{.checkpointing = ActivationCheckpointing::full};
  training.body = [&](ModuleId module, ModuleWork::Pass pass,
                      std::int32_t) -> std::function<void(const BodyContext&)> {
    if (pass == ModuleWork::Pass::recompute) recomputed.push_back(model.module(module).path);
    return {};
  };
  REQUIRE(run_training_step(**engine, model, training).ok());
  CHECK(recomputed == std::vector<std::string>{"out", "pair.0", "pair.1", "pair.2", "shared",
                                               "pair.0", "pair.1", "pair.2", "shared", "shared",
                                               "in"});
}

}  // namespace
}  // namespace tessera
