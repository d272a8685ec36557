// SPDX-License-Identifier: Apache-2.0
// Summoning in the middle of training with real models: gradients are those of unsharded training,
// and training goes on as if nothing had happened, or with what was committed.
#include <catch2/catch.hpp>

#include "engine/numbers/number.h"
#include "tessera/real_model.h"
#include "tessera/sim/lockstep_runtime.h"
#include "tests/sim/test_costs.h"
#include "tests/summon/scenes.h"
#include "tests/training/reference/real_models.h"
#include "tests/training/reference/unsharded_training.h"

namespace tessera {
namespace {

using test::require_ok;
using test::UnshardedTraining;

constexpr Rank ranks = 4;

struct Run {
  Model model;
  test::TestCosts costs;
  std::unique_ptr<sim::LockstepRuntime> runtime;
  std::unique_ptr<Engine> engine;
  std::unique_ptr<RealModel> real;
  std::unique_ptr<UnshardedTraining> reference;
  TrainingOptions training;

  Run(const test::SummonScheme& scheme, const Model& trained, TrainingOptions options = {})
      : model(trained), training(std::move(options)) {
    auto made =
        sim::LockstepRuntime::create({.world_size = ranks, .cost = &costs, .numerics = true});
    require_ok(made.status());
    runtime = std::move(*made);
    auto sharded = scheme.make(*runtime, model, {});
    require_ok(sharded.status());
    engine = std::move(*sharded);
    const RealModelOptions data{.batch = 2, .sequence_length = 4, .seed = 7, .world_size = ranks};
    auto passes = RealModel::create(model, data);
    require_ok(passes.status());
    real = std::make_unique<RealModel>(std::move(*passes));
    require_ok(engine->initialise(real->initial_values()));
    training.batch = data.batch;
    training.sequence_length = data.sequence_length;
    training.body = real->bodies();
    // With four ranks all divisions are by powers of two: where they are made does not matter.
    reference = std::make_unique<UnshardedTraining>(
        model, data,
        test::UnshardedOptions{.accumulation = training.accumulation,
                               .sync_every_micro_batch = training.sync_every_micro_batch,
                               .adam = training.adam});
  }

  void check_equal() const {
    const test::Shards shards(*engine, model);
    CHECK(shards.different(
              [&](Rank, ParameterId id, std::size_t i) { return reference->values(id)[i]; }) == 0);
  }
};

// The hybrid schemes sum in another order; the others add up ranks 0, 1, 2, 3.
std::vector<test::SummonScheme> schemes_in_rank_order() {
  auto all = test::summon_schemes();
  std::erase_if(all, [](const test::SummonScheme& s) { return s.name.starts_with("hybrid"); });
  return all;
}

std::unique_ptr<FullParams> summon(Engine& engine, const SummonOptions& options) {
  auto full = summon_full_params(engine, options);
  require_ok(full.status());
  return std::move(*full);
}

TEST_CASE("training goes on as if nothing had been summoned", "[summon][numerics]") {
  for (const auto& scheme : schemes_in_rank_order()) {
    INFO(scheme.name);
    Run run(scheme, GENERATE(test::tiny_gpt2(), test::mlp_chain()));
    for (int step = 0; step < 4; ++step) {
      auto full = summon(*run.engine, {.rank0_only = step % 2 == 1, .offload_to_cpu = step > 1});
      if (step != 2) require_ok(full->commit());  // unchanged
      full.reset();
      require_ok(run_training_step(*run.engine, run.model, run.training));
      run.reference->step();
    }
    run.check_equal();
    require_ok(run.runtime->finish());
  }
}

TEST_CASE("training goes on from what was committed", "[summon][numerics]") {
  for (const auto& scheme : schemes_in_rank_order()) {
    INFO(scheme.name);
    Run run(scheme, test::tiny_gpt2());
    const ParameterId id = run.model.find_parameter("h.1.mlp.c_fc.weight");
    REQUIRE(id.valid());
    for (int step = 0; step < 3; ++step) {
      const bool one_unit = scheme.name == "replicate" || scheme.name.starts_with("zero");
      const char* root = one_unit ? "" : "h.1";
      auto full = summon(*run.engine, {.root = root, .rank0_only = step == 1});
      require_ok(full->modify(id, [&](Rank, std::span<float> values) {
        values[static_cast<std::size_t>(step)] = 0.25F;
      }));
      require_ok(full->commit());
      require_ok(full->close());
      run.reference->set_value(id, static_cast<std::size_t>(step), 0.25F);
      require_ok(run_training_step(*run.engine, run.model, run.training));
      run.reference->step();
    }
    run.check_equal();
  }
}

TEST_CASE("summoned gradients are the means over ranks", "[summon][numerics]") {
  for (const auto& scheme : schemes_in_rank_order()) {
    INFO(scheme.name);
    const bool reduces_always = scheme.name == "zero2" || scheme.name.starts_with("zero3");
    Run run(scheme, test::tiny_gpt2(),
            {.accumulation = 2, .sync_every_micro_batch = reduces_always});
    test::Interrupted engine(*run.engine);
    int step = 0;
    engine.before_step = [&] {
      run.reference->step();  // its gradient is that of the step that is about to be taken
      auto full = summon(
          *run.engine, {.rank0_only = step == 1, .offload_to_cpu = step == 1, .with_grads = true});
      std::size_t different = 0;
      std::size_t seen = 0;
      for (const ParameterId id : full->parameters()) {
        require_ok(full->read_gradient(id, [&](Rank, std::span<const float> gradient) {
          ++seen;
          for (std::size_t i = 0; i < gradient.size(); ++i) {
            different += gradient[i] == run.reference->gradient(id)[i] ? 0 : 1;
          }
        }));
      }
      CHECK(seen == run.model.parameters.size() * (step == 1 ? 1 : ranks));
      CHECK(different == 0);
      ++step;
    };
    for (int k = 0; k < 3; ++k) require_ok(run_training_step(engine, run.model, run.training));
    run.check_equal();
  }
}

TEST_CASE("frozen parameters are summoned and have no gradient", "[summon][numerics]") {
  for (const std::size_t place : {0, 1, 3}) {  // those that may mix frozen and trained
    const auto scheme = test::summon_schemes()[place];
    INFO(scheme.name);
    Run run(scheme, test::frozen_and_tied());
    test::Interrupted engine(*run.engine);
    engine.before_step = [&] {
      auto full = summon(*run.engine, {.with_grads = true});
      CHECK(full->parameters().size() == run.model.parameters.size());
      for (const ParameterId id : full->parameters()) {
        INFO(run.model.parameter(id).name);
        const Status status = full->read_gradient(id, [](Rank, std::span<const float>) {});
        CHECK(status.ok() == run.model.parameter(id).requires_grad);
      }
      require_ok(full->commit());
    };
    require_ok(run_training_step(engine, run.model, run.training));
    run.reference->step();
    run.check_equal();
  }
}

TEST_CASE("the optimizer uses committed gradients", "[summon][numerics]") {
  for (const auto& scheme : test::summon_schemes()) {
    INFO(scheme.name);
    Run run(scheme, test::tiny_gpt2());
    const test::Shards before(*run.engine, run.model);
    test::Interrupted engine(*run.engine);
    engine.before_step = [&] {
      auto full = summon(*run.engine, {.rank0_only = true, .with_grads = true});
      for (const ParameterId id : full->parameters()) {
        require_ok(full->modify_gradient(id, [](Rank, std::span<float> gradient) {
          for (float& g : gradient) g = 0;
        }));
      }
      require_ok(full->commit());
    };
    require_ok(run_training_step(engine, run.model, run.training));
    const test::Shards after(*run.engine, run.model);
    CHECK(after.different([&](Rank, ParameterId id, std::size_t i) {
      return run.real->initial_values()(id, Numel{static_cast<std::int64_t>(i)});
    }) == 0);
  }
}

// Rounded to bfloat16 none of them would be.
void check_initial(FullParams& full, const RealModel& real) {
  std::size_t different = 0;
  for (const ParameterId id : full.parameters()) {
    require_ok(full.read(id, [&](Rank, std::span<const float> values) {
      for (std::size_t i = 0; i < values.size(); ++i) {
        const float expected = real.initial_values()(id, Numel{static_cast<std::int64_t>(i)});
        different += values[i] == expected ? 0 : 1;
      }
    }));
  }
  CHECK(different == 0);
}

TEST_CASE("parameters that stay unsharded show what was committed", "[summon][numerics]") {
  const DType dtype = GENERATE(DType::float32, DType::bfloat16);
  const bool rank0_only = GENERATE(false, true);
  Run run(test::flat_scheme("shard_grad_op",
                            {.strategy = ShardingStrategy::shard_grad_op, .param_dtype = dtype}),
          test::tiny_gpt2(), {.accumulation = 2, .sync_every_micro_batch = false});
  const ParameterId id = run.model.find_parameter("h.0.ln_1.weight");
  REQUIRE(id.valid());
  test::Interrupted engine(*run.engine);
  int forwards = 0;
  engine.before_forward = [&] {
    if (++forwards != 2) return;  // between the micro-batches
    auto full = summon(*run.engine, {.rank0_only = rank0_only});
    check_initial(*full, *run.real);
    require_ok(full->modify(id, [](Rank, std::span<float> values) { values[0] = 0.5F; }));
    require_ok(full->commit());
  };
  std::vector<float> seen;
  run.training.body = [&](ModuleId module, ModuleWork::Pass pass,
                          std::int32_t micro_batch) -> std::function<void(const BodyContext&)> {
    const bool wanted = module == run.model.parameter(id).module &&
                        pass == ModuleWork::Pass::forward && micro_batch == 1;
    if (!wanted) return {};
    return
        [&](const BodyContext& context) { seen.push_back(load_number(context.read(0), dtype, 0)); };
  };
  require_ok(run_training_step(engine, run.model, run.training));
  CHECK(seen == std::vector<float>(ranks, 0.5F));
}

}  // namespace
}  // namespace tessera
