// SPDX-License-Identifier: Apache-2.0
// Loss scaling with real numbers, on every scheme.
#include "tessera/grad_scaler.h"

#include <catch2/catch.hpp>
#include <limits>

#include "tessera/recording.h"
#include "tests/base/every_scheme.h"
#include "tests/training/reference/equal_shards.h"
#include "tests/training/reference/real_models.h"

namespace tessera {
namespace {

using test::check_refused;
using test::EveryScheme;
using test::require_ok;

std::unique_ptr<GradScaler> scaler_of(Engine& engine, const GradScalerOptions& options = {}) {
  auto made = grad_scaler(engine, options);
  INFO(made.status().message());
  REQUIRE(made.ok());
  return std::move(*made);
}

test::UnshardedOptions arithmetic_of(int scheme, Rank ranks) {
  if (scheme == 4) return {.post = 1, .sums_shares = true};
  if (scheme == 3) return {.carries_gradient = true};
  if (scheme == 1 || scheme == 2) {
    return {.pre = divide_factors(ranks).predivide, .post = divide_factors(ranks).postdivide};
  }
  if (scheme >= 5) return {.pre = static_cast<float>(ranks), .post = 1};
  return {};
}

// A power of two changes exponents only, so nothing may differ by a bit.
TEST_CASE("training with a scaled loss is training without, to the bit", "[numerics][scaler]") {
  const Model model = test::mlp_chain();
  const int index = GENERATE(range(0, EveryScheme::count));
  const bool clips = GENERATE(false, true);
  const Rank ranks = 3;
  const RealModelOptions data{.batch = 2, .seed = 7, .world_size = ranks};
  EveryScheme run(index, ranks, model);
  EveryScheme plain(index, ranks, model);
  INFO(run.name);
  auto scaler = scaler_of(*run.engine, {.loss_scale = {.growth_interval = 2}});
  const auto real = RealModel::create(model, data), unscaled = RealModel::create(model, data);
  require_ok(run.engine->initialise(real->initial_values()));
  require_ok(plain.engine->initialise(real->initial_values()));
  TrainingOptions training{.batch = data.batch, .max_grad_norm = clips ? 0.01F : 0.0F};
  test::UnshardedTraining reference(model, data, arithmetic_of(index, ranks));
  for (int step = 0; step < 5; ++step) {
    real->set_loss_scale(scaler->scale());
    training.body = real->bodies();
    training.scaler = scaler.get();
    require_ok(run_training_step(*run.engine, model, training));
    training.body = unscaled->bodies();
    training.scaler = nullptr;
    require_ok(run_training_step(*plain.engine, model, training));
    reference.step();
  }
  CHECK(scaler->scale() == 4 * 65536);
  for (std::size_t p = 0; p < model.parameters.size(); ++p) {
    const ParameterId id{static_cast<std::int32_t>(p)};
    CHECK(run.values(id) == plain.values(id));
  }
  if (!clips) test::check_equal(*run.engine, model, reference);
  require_ok(run.runtime->finish());
}

// As formula_training, but one rank finds something that is no number.
TrainingOptions broken_on(Rank broken, float value, const Model& model) {
  TrainingOptions training = test::formula_training(model);
  training.body = [inner = training.body, broken, value](ModuleId module, ModuleWork::Pass pass,
                                                         std::int32_t micro_batch) {
    auto body = inner(module, pass, micro_batch);
    if (!body || module != ModuleId{2}) return body;
    return std::function<void(const BodyContext&)>([=](const BodyContext& context) {
      body(context);
      if (context.rank() == broken) context.write_as<float>(0)[1] = value;
    });
  };
  return training;
}

TEST_CASE("one rank's overflow makes all ranks skip (fairscale F11)", "[numerics][scaler]") {
  const Model model = test::g3();
  const int index = GENERATE(range(0, EveryScheme::count));
  const Rank broken = GENERATE(0, 2);
  const float value =
      GENERATE(std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN());
  EveryScheme run(index, 3, model), clean(index, 3, model);
  INFO(run.name << ", rank " << broken << " finds " << value);
  auto scaler = scaler_of(*run.engine);
  auto other = scaler_of(*clean.engine, {.loss_scale = {.initial_scale = 32768}});
  auto step = [&](EveryScheme& world, GradScaler& with, TrainingOptions training) {
    training.scaler = &with;
    require_ok(run_training_step(*world.engine, model, training));
  };
  require_ok(run.engine->begin_training({}));  // which may make states
  const Bytes state = run.held(MemoryClass::optimizer_state);
  // Only the second step of `run` differs, and it must leave no trace but a smaller scale.
  step(run, *scaler, broken_on(broken, value, model));
  CHECK(scaler->scale() == 32768);
  CHECK(run.held(MemoryClass::optimizer_state).value == state.value);
  for (int k = 0; k < 2; ++k) {
    step(run, *scaler, test::formula_training(model));
    step(clean, *other, test::formula_training(model));
  }
  step(run, *scaler, broken_on(broken, value, model));
  CHECK(scaler->scale() == 16384);
  for (std::size_t p = 0; p < model.parameters.size(); ++p) {
    const ParameterId id{static_cast<std::int32_t>(p)};
    CHECK(run.values(id) == clean.values(id));
  }
  require_ok(run.runtime->finish());
}

TEST_CASE("one rank's gradient that is no number makes all ranks skip the step, without a scaler",
          "[numerics][scaler]") {
  const Model model = test::g3();
  const int index = GENERATE(range(0, EveryScheme::count));
  const Rank broken = GENERATE(0, 2);
  const bool clips = GENERATE(false, true);
  EveryScheme run(index, 3, model), clean(index, 3, model);
  INFO(run.name << ", rank " << broken);
  int skipped = 0;
  const auto step = [&](EveryScheme& world, TrainingOptions training) {
    training.max_grad_norm = clips ? 0.5F : 0.0F;
    training.skipped = [&] { ++skipped; };
    require_ok(run_training_step(*world.engine, model, training));
  };
  const float nan = std::numeric_limits<float>::quiet_NaN();
  step(run, test::formula_training(model));
  step(run, broken_on(broken, nan, model));
  step(run, broken_on(broken, std::numeric_limits<float>::infinity(), model));
  CHECK(skipped == 2);
  step(run, test::formula_training(model));
  for (int k = 0; k < 2; ++k) step(clean, test::formula_training(model));
  CHECK(skipped == 2);
  for (std::size_t p = 0; p < model.parameters.size(); ++p) {
    const ParameterId id{static_cast<std::int32_t>(p)};
    CHECK(run.values(id) == clean.values(id));
  }
  require_ok(run.runtime->finish());
}

TEST_CASE("gradients in float16 overflow, are skipped and then train", "[numerics][scaler]") {
  const Model model = test::mlp_chain();
  const int index = GENERATE(range(0, EveryScheme::count));
  const Rank ranks = 2;
  EveryScheme run(test::scheme_at(index, DType::float16), ranks, model);
  INFO(run.name);
  const RealModelOptions data{.batch = 2,
                              .seed = 3,
                              .world_size = ranks,
                              .half_dtype = DType::float16,
                              .same_data_every_step = true};
  const auto real = RealModel::create(model, data);
  require_ok(run.engine->initialise(real->initial_values()));
  auto scaler = scaler_of(*run.engine, {.loss_scale = {.initial_scale = 0x1p24F}});
  TrainingOptions training{.batch = data.batch,
                           .adam = {.learning_rate = 1e-2F, .epsilon = 1e-3F},
                           .scaler = scaler.get(),
                           .body = real->bodies()};
  std::vector<float> losses;
  for (int step = 0; step < 40; ++step) {
    real->set_loss_scale(scaler->scale());
    require_ok(run_training_step(*run.engine, model, training));
    losses.push_back(real->loss());
  }
  CHECK(scaler->scale() < 0x1p24F);
  CHECK(scaler->scale() > 256);
  CHECK(losses[1] == losses[0]);  // skipped
  CHECK(losses.back() < 0.9F * losses[0]);
  require_ok(run.runtime->finish());
}

TEST_CASE("unscale, step and update have one order (fairscale G1)", "[scaler][errors]") {
  const Model model = test::g3();
  EveryScheme run(0, 2, model);
  auto scaler = scaler_of(*run.engine);
  check_refused(scaler->update(), "No inf checks were recorded prior to update()");
  require_ok(run.engine->begin_forward());
  check_refused(scaler->unscale(), "unscale was called in forward");
  require_ok(run.engine->begin_backward());
  require_ok(run.engine->end_backward());
  require_ok(scaler->unscale());
  check_refused(scaler->unscale(), "unscale() has already been called on this optimizer");
  CHECK(*scaler->step({}));
  check_refused(scaler->unscale(), "unscale() is being called after step()");
  check_refused(scaler->step({}).status(),
                "step() has already been called since the last update()");
  require_ok(scaler->update());
  require_ok(scaler->unscale());
  auto refused = [&](const LossScaleOptions& options, const std::string& part) {
    check_refused(grad_scaler(*run.engine, {.loss_scale = options}).status(), part);
  };
  refused({.initial_scale = 0}, "initial_scale must be finite and above 0, found 0");
  refused({.growth_factor = 0.5F}, "growth_factor must be at least 1");
  refused({.backoff_factor = 1.5F}, "backoff_factor must be above 0 and at most 1");
  refused({.growth_interval = 0}, "growth_interval must be at least 1");
  refused({.hysteresis = 0}, "hysteresis must be at least 1");
  refused({.min_scale = -1}, "min_scale must be at least 0");
}

TEST_CASE("a scaler that is not enabled does nothing", "[scaler]") {
  const Model model = test::g3();
  Recording with, without;
  for (Recording* recording : {&with, &without}) {
    const auto runtime = make_recording_runtime(2, *recording);
    auto engine = make_engine(*runtime, model, ShardedDataParallelOptions{});
    auto scaler = scaler_of(**engine, {.enabled = false});
    TrainingOptions training{.scaler = recording == &with ? scaler.get() : nullptr};
    CHECK(scaler->scale() == 1);
    require_ok(run_training_step(**engine, model, training));
  }
  CHECK(with.records.size() == without.records.size());
}

TEST_CASE("a runtime without numbers skips the steps that it is told to", "[scaler]") {
  const Model model = test::g3();
  Recording recording;
  const auto runtime = make_recording_runtime(2, recording);
  auto engine =
      make_engine(*runtime, model, test::scheme_at(GENERATE(range(0, EveryScheme::count))));
  auto scaler = scaler_of(**engine, {.overflows_without_numbers = [](auto n) { return n == 1; }});
  std::vector<float> scales;
  TrainingOptions training{.scaler = scaler.get()};
  for (int step = 0; step < 3; ++step) {
    require_ok(run_training_step(**engine, model, training));
    scales.push_back(scaler->scale());
  }
  CHECK(scales == std::vector<float>{65536, 32768, 32768});
}

}  // namespace
}  // namespace tessera
