// SPDX-License-Identifier: Apache-2.0
// zero3 with true numbers: whatever its policy, budget and sizes are, and if parameters are frozen
// or unfrozen and modules repeated meanwhile, shards are what unsharded training gives, to the bit;
// and the strict policy stays within its budget.
#include <catch2/catch.hpp>

#include "tessera/recording.h"
#include "tessera/scheme.h"
#include "tests/schemes/zero3/policy_run.h"
#include "tests/sim/test_costs.h"
#include "tests/swap/scratch_folder.h"
#include "tests/training/reference/equal_shards.h"
#include "tests/training/reference/random_model.h"
#include "tests/training/reference/real_models.h"

namespace tessera {
namespace {

using test::Random;

// The smallest budget that works: without a limit of parameters the default is twice that.
Bytes smallest_budget(const Model& model, Rank ranks) {
  Recording recording;
  const auto runtime = make_recording_runtime(ranks, recording);
  auto engine = zero3(*runtime, model, {.max_live_parameters = Numel{0}});
  REQUIRE(engine.ok());
  return Bytes{(*engine)->live_budget()->value / 2};
}

Zero3Options random_options(Random& random, const Model& model, Rank ranks,
                            const std::string& nvme_path) {
  Zero3Options o;
  o.policy = random.chance(60)   ? Zero3Policy::strict
             : random.chance(50) ? Zero3Policy::compatible
                                 : Zero3Policy::compatible_0_19;
  if (random.chance(80)) {
    const Bytes smallest = smallest_budget(model, ranks);
    o.live_budget = smallest + Bytes{random.chance(30) ? 0 : random.below(3 * smallest.value + 1)};
  }
  o.prefetch_bucket = Numel{random.below(80)};
  o.max_reuse_distance = Numel{random.below(80)};
  o.max_live_parameters = Numel{random.below(200)};
  o.persistence_threshold = Numel{random.below(20)};
  o.reduce_bucket = Numel{random.below(100)};
  o.sub_group_size = Numel{1 + random.below(40)};
  const auto device = [&random] {  // files take time
    return static_cast<Offload::Device>(random.chance(20) ? 2 : random.below(2));
  };
  o.offload_param.device = device();
  o.offload_param.buffer_count = o.policy == Zero3Policy::strict ? 1 + random.below(4) : 100;
  o.offload_param.nvme_path = nvme_path;
  o.aio.smallest = Bytes{random.chance(70) ? 0 : random.below(100)};
  o.offload_optimizer.device = device();
  o.offload_optimizer.buffer_count = 12;
  o.offload_optimizer.pipeline_read = random.chance(50);
  o.offload_optimizer.pipeline_write = random.chance(50);
  o.offload_optimizer.nvme_path = nvme_path;
  if (random.chance(50)) o.offload_optimizer.ratio = 0.25 * static_cast<double>(random.below(5));
  return o;
}

// The last parameter stays trained, so that there is a backward pass.
void freeze_and_unfreeze(Random& random, Model& model) {
  for (std::size_t p = 0; p + 1 < model.parameters.size(); ++p) {
    if (random.chance(30)) model.parameters[p].requires_grad ^= true;
  }
  model.parameters.back().requires_grad = true;
}

// Layers that are as wide as their input run once or several times.
void change_graph(Random& random, Model& model) {
  std::vector<ModuleId> forward;
  for (ModuleId id : model.forward) {
    if (!forward.empty() && forward.back() == id) continue;
    const auto& parameters = model.module(id).parameters;
    const auto* shape = parameters.empty() ? nullptr : &model.parameter(parameters[0]).shape;
    const bool square = shape == nullptr || (shape->size() == 2 && (*shape)[0] == (*shape)[1]);
    forward.insert(forward.end(), square ? 1 + random.below(3) : 1, id);
  }
  model.forward = std::move(forward);
}

RealModel real_model(const Model& model, const RealModelOptions& data) {
  auto real = RealModel::create(model, data);
  INFO(real.status().message());
  REQUIRE(real.ok());
  return *real;
}

TEST_CASE("zero3 trains as unsharded training does, to the bit and within its budget",
          "[numerics][zero3][property]") {
  const std::uint64_t seed = GENERATE(range(std::uint64_t{1}, test::generated(200) + 1));
  INFO("seed=" << seed);
  Random random(seed ^ 0x5EED);
  const test::RandomModel made(random);
  Model model = random.chance(15) ? test::tiny_gpt2() : test::parsed(made.json());
  INFO(made.json());
  RealModelOptions data{.seed = seed, .world_size = static_cast<Rank>(1 + random.below(8))};
  if (model.name != "random") data.sequence_length = 5;
  TrainingOptions training{.sequence_length = data.sequence_length};
  training.accumulation = static_cast<std::int32_t>(1 + random.below(3));
  if (random.chance(30)) training.checkpointing = ActivationCheckpointing::full;
  data.checkpointing = training.checkpointing;
  const test::ScratchFolder folder;
  const Zero3Options options = random_options(random, model, data.world_size, folder.path());
  const bool strict = options.policy == Zero3Policy::strict;

  const test::TestCosts costs;
  test::PolicySink sink;
  auto runtime = sim::LockstepRuntime::create({.world_size = data.world_size,
                                               .cost = &costs,
                                               .seed = seed,
                                               .jitter = 0.2,
                                               .numerics = true,
                                               .sink = &sink,
                                               .recorded_ranks = {0}});
  REQUIRE(runtime.ok());
  auto engine = zero3(**runtime, model, options);
  INFO(engine.status().message());
  REQUIRE(engine.ok());
  for (const auto& [key, value] : options_of(Scheme(options), model)) {
    UNSCOPED_INFO(key << " " << to_text(value));
  }
  RealModel real = real_model(model, data);
  REQUIRE((*engine)->initialise(real.initial_values()).ok());
  test::UnshardedTraining reference(model, data,
                                    {.accumulation = training.accumulation,
                                     .pre = static_cast<float>(data.world_size),
                                     .post = 1});
  const bool freezes = strict && random.chance(50);
  const bool dynamic = strict && model.name == "random" && random.chance(50);
  for (int step = 0; step < 6; ++step) {
    if (step > 0 && (freezes || dynamic) && random.chance(50)) {
      if (freezes) freeze_and_unfreeze(random, model);
      if (dynamic) change_graph(random, model);
      real = real_model(model, data);
      reference.refresh();
    }
    training.body = real.bodies();
    const Status status = run_training_step(**engine, model, training);
    INFO("step " << step << ": " << status.message());
    REQUIRE(status.ok());
    reference.step();
    REQUIRE(real.loss() == reference.loss());
  }
  test::check_equal(**engine, model, reference);
  const Status finished = (*runtime)->finish();
  INFO(finished.message());
  CHECK(finished.ok());
  CHECK(sink.peak > Bytes{0});
  if (strict) CHECK(sink.peak <= *(*engine)->live_budget());
}

}  // namespace
}  // namespace tessera
