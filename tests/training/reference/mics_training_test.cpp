// SPDX-License-Identifier: Apache-2.0
// zero3 in groups (MiCS): the same numbers as unsharded training, and one reduction between groups
// a step, however many micro-batches it has.
#include <catch2/catch.hpp>

#include "tessera/recording.h"
#include "tessera/sim/lockstep_runtime.h"
#include "tessera/zero3.h"
#include "tests/sim/test_costs.h"
#include "tests/training/reference/equal_shards.h"
#include "tests/training/reference/real_models.h"
#include "tests/training/reference/unsharded_training.h"

namespace tessera {
namespace {

TEST_CASE("groups of zero3 train as unsharded training does, to the bit", "[numerics][zero3]") {
  const Rank ranks = GENERATE(2, 4, 6);
  const Index group = GENERATE(1, 2);
  const auto policy = GENERATE(Zero3Policy::strict, Zero3Policy::compatible);
  INFO(ranks << " ranks in groups of " << group);
  const Model model = test::frozen_and_tied();
  const RealModelOptions data{.batch = 2, .sequence_length = 3, .seed = 7, .world_size = ranks};
  const test::TestCosts costs;
  auto runtime =
      sim::LockstepRuntime::create({.world_size = ranks, .cost = &costs, .numerics = true});
  REQUIRE(runtime.ok());
  auto engine =
      zero3(**runtime, model, {.policy = policy, .reduce_bucket = Numel{20}, .shard_group = group});
  INFO(engine.status().message());
  REQUIRE(engine.ok());
  auto real = RealModel::create(model, data);
  REQUIRE(real.ok());
  REQUIRE((*engine)->initialise(real->initial_values()).ok());
  TrainingOptions training{.batch = data.batch, .sequence_length = data.sequence_length};
  training.body = real->bodies();
  test::UnshardedTraining reference(model, data,
                                    {.pre = static_cast<float>(ranks), .group = group, .post = 1});
  for (int step = 0; step < 5; ++step) {
    const Status status = run_training_step(**engine, model, training);
    INFO(status.message());
    REQUIRE(status.ok());
    reference.step();
    CHECK(real->loss() == reference.loss());
  }
  test::check_equal(**engine, model, reference);
  CHECK((*runtime)->finish().ok());
}

TEST_CASE("groups of zero3 add their gradients up once a step", "[zero3]") {
  const std::int32_t accumulation = GENERATE(1, 3);
  const bool clips = GENERATE(false, true);
  Recording recording;
  const auto runtime = make_recording_runtime(8, recording);
  const Model model = test::mlp_chain();
  auto engine = zero3(*runtime, model, {.shard_group = 2});
  REQUIRE(engine.ok());
  for (int step = 0; step < 2; ++step) {
    REQUIRE(run_training_step(**engine, model,
                              {.accumulation = accumulation, .max_grad_norm = clips ? 1.0F : 0.0F})
                .ok());
  }
  int reductions = 0;
  for (const Record& record : recording.records) {
    const auto* op = std::get_if<AllReduce>(&record.op.what);
    if (op != nullptr && record.cause.reason == Reason::reduce_gradients) ++reductions;
  }
  CHECK(reductions == 2);
}

TEST_CASE("groups of zero3 that cannot be are refused", "[zero3]") {
  const Model model = test::mlp_chain();
  const auto refused = [&](const Zero3Options& options) {
    Recording recording;
    const auto runtime = make_recording_runtime(8, recording);
    const auto engine = zero3(*runtime, model, options);
    REQUIRE_FALSE(engine.ok());
    return engine.status().message();
  };
  CHECK(refused({.shard_group = 3}) == "shard_group 3 must divide the number of ranks, 8");
  CHECK(refused({.shard_group = 2, .offload_param = {.device = Offload::Device::cpu}}) ==
        "shard_group 2 cannot be combined with offloading: MiCS keeps partitions on the device");
  CHECK(refused({.shard_group = 4, .plus_plus = {.secondary_group = 2}}).find("ZeRO++") !=
        std::string::npos);

  Recording recording;
  const auto runtime = make_recording_runtime(4, recording);
  auto engine = zero3(*runtime, model, {.shard_group = 2});
  REQUIRE(engine.ok());
  TrainingOptions backward;
  backward.passes = {{.kind = TrainingPass::Kind::train}};
  REQUIRE(run_training_step(**engine, model, backward).ok());
  REQUIRE((*engine)->clip_grad_norm(1.0F, 2, {}).ok());
  CHECK(run_training_step(**engine, model, backward).message() ==
        "gradients of groups of 2 ranks were added up already, for a norm or a scale: step before "
        "the next backward pass");
}

}  // namespace
}  // namespace tessera
