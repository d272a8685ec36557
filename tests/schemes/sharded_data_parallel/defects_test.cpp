// SPDX-License-Identifier: Apache-2.0
// Defects of the original, none of which this has; and what is refused.
//
// Elsewhere: process groups (F2) in process_groups_test.cpp, param groups that join (F5) in
// optimizers_test.cpp, optimizer state (F9) in tests/base/optimizer_state_test.cpp, the gradient
// scaler (F11) in tests/training/reference/grad_scaler_test.cpp.
#include <catch2/catch.hpp>

#include "tests/schemes/sharded_data_parallel/owners.h"

namespace tessera {
namespace {

using test::mlp;
using test::NumericOwners;
using test::RecordedOwners;
using test::require_ok;
using Lines = std::vector<std::string>;

Parameter& parameter(Model& model, const char* name) {
  return model.parameters[model.find_parameter(name).index()];
}

std::vector<float> values_of(Engine& engine, const Model& model, const char* name) {
  std::vector<float> out;
  require_ok(engine.inspect_shards(
      model.find_parameter(name),
      [&](Rank, Numel, std::span<const float> v) { out.insert(out.end(), v.begin(), v.end()); }));
  return out;
}

TEST_CASE("zero_grad does not keep gradients from being reduced (fairscale F1)",
          "[owner][defects]") {
  const Model model = mlp();
  const bool to_none = GENERATE(false, true);
  const bool reduced = GENERATE(false, true);
  NumericOwners world(2, model);
  world.engine->set_requires_gradient_sync(reduced);
  require_ok(test::pass(*world.engine, model));
  world.engine->set_requires_gradient_sync(true);
  require_ok(world.engine->zero_grad(to_none));
  require_ok(run_training_step(*world.engine, model, test::formula_training(model)));
  test::FormulaTraining reference(model);
  reference.step(RankSet::all(2), 2, 2);
  reference.check(*world.engine, 2);
  require_ok(world.runtime->finish());
}

TEST_CASE("what is trained changes once, and is laid out anew once (fairscale F3)",
          "[owner][defects]") {
  Model model = mlp();
  RecordedOwners run(2, model);
  auto layouts = [&] {
    int count = 0;
    for (const auto& buffer : run.recording.buffers) {
      count += buffer.name == "owner 0.parameters" ? 1 : 0;
    }
    return count;
  };
  require_ok(run_training_step(*run.engine, model, {}));
  CHECK(layouts() == 1);
  parameter(model, "l0.weight").requires_grad = false;
  for (int step = 0; step < 4; ++step) {
    require_ok(run_training_step(*run.engine, model, {}));
    CHECK(layouts() == 2);
  }
}

TEST_CASE("a norm taken before there were gradients does not stay (fairscale F4)",
          "[owner][defects]") {
  const Model model = mlp();
  NumericOwners world(2, model);
  std::vector<float> norms;
  auto total = [&](Rank, float norm) { norms.push_back(norm); };
  require_ok(world.engine->clip_grad_norm(1, 2, total));
  CHECK(norms == std::vector<float>{0, 0});
  require_ok(test::pass(*world.engine, model));
  require_ok(world.engine->clip_grad_norm(1, 2, total));
  CHECK(norms.at(2) > 1);
  CHECK(norms.at(3) == norms.at(2));
}

TEST_CASE("freezing moves nothing to another owner and stops nothing else", "[owner][defects]") {
  Model model = mlp();
  NumericOwners world(2, model, {.reduce_buffer_size = Numel{GENERATE(0, 1000)}});
  const TrainingOptions training = test::partly_frozen_training(model);
  test::FormulaTraining reference(model);
  std::vector<Rank> owners;
  for (std::int32_t k = 0; k < 6; ++k) owners.push_back(world.engine->owner_of({k}));
  auto step = [&] {
    require_ok(run_training_step(*world.engine, model, training));
    std::map<std::int32_t, std::vector<test::FormulaTraining::Element>> frozen;
    for (std::int32_t k = 0; k < 6; ++k) {
      if (!model.parameter({k}).requires_grad) frozen[k] = reference.elements[k];
    }
    reference.step(RankSet::all(2), 2, 2);
    for (const auto& [k, elements] : frozen) reference.elements[k] = elements;
    reference.check(*world.engine, 2);
    for (std::int32_t k = 0; k < 6; ++k) {
      CHECK(world.engine->owner_of({k}) == owners[static_cast<std::size_t>(k)]);
    }
  };
  step();
  parameter(model, "l1.weight").requires_grad = false;
  parameter(model, "l2.bias").requires_grad = false;
  step();
  parameter(model, "l1.weight").requires_grad = true;
  require_ok(world.engine->refresh_trainable());  // by hand, too
  parameter(model, "l0.weight").requires_grad = false;
  step();
  parameter(model, "l0.weight").requires_grad = true;
  step();
  require_ok(world.runtime->finish());
}

TEST_CASE("what is trained does not change while there are gradients", "[owner][defects]") {
  Model model = mlp();
  NumericOwners world(2, model);
  require_ok(test::pass(*world.engine, model));
  parameter(model, "l1.weight").requires_grad = false;
  test::check_refused(world.engine->refresh_trainable(), "while there are gradients");
  require_ok(world.engine->zero_grad(true));
  require_ok(world.engine->refresh_trainable());
}

TEST_CASE("the order of collectives is not that of a rank's graph (fairscale F6, F10)",
          "[owner][defects]") {
  const Model model = mlp();
  const ShardedDataParallelOptions options{.reduce_buffer_size = Numel{GENERATE(0, 1000)},
                                           .sync_models_at_startup = false};
  RecordedOwners usual(2, model, options), reordered(2, model, options), partly(2, model, options);
  require_ok(test::pass(*usual.engine, model));
  require_ok(test::pass(*reordered.engine, model, {"l0", "l1", "l2"}, {"l0", "l1", "l2"}));
  require_ok(test::pass(*partly.engine, model, {"l1"}, {"l1"}));
  const Lines expected = usual.collectives();
  CHECK(reordered.collectives() == expected);
  CHECK(partly.collectives() == expected);
}

TEST_CASE("a parameter that nobody used has gradient zero", "[owner][defects]") {
  const Model model = mlp();
  NumericOwners world(2, model, {.reduce_buffer_size = Numel{GENERATE(0, 1000)}});
  require_ok(test::pass(*world.engine, model, {"l1"}, {"l1"}));
  require_ok(world.engine->inspect_gradient(model.find_parameter("l0.weight"),
                                            [](Rank, std::span<const float> values) {
                                              for (const float g : values) CHECK(g == 0);
                                            }));
  const auto before = values_of(*world.engine, model, "l0.weight");
  const auto used = values_of(*world.engine, model, "l1.weight");
  require_ok(world.engine->step({}));
  CHECK(values_of(*world.engine, model, "l0.weight") == before);
  CHECK(values_of(*world.engine, model, "l1.weight") != used);
}

TEST_CASE("no collective is empty or about what is frozen (fairscale F7)", "[owner][defects]") {
  Model model = mlp();
  for (const char* name : {"l0.bias", "l1.weight"}) parameter(model, name).requires_grad = false;
  RecordedOwners run(2, model, {.sync_models_at_startup = false});
  CHECK(run.engine->owner_of(model.find_parameter("l0.bias")) == 1);
  require_ok(run_training_step(*run.engine, model, {}));
  Numel reduced{}, sent{};
  for (const Record& r : run.recording.records) {
    if (const auto* reduce = std::get_if<Reduce>(&r.op.what)) reduced += reduce->input.numel;
    if (const auto* out = std::get_if<Broadcast>(&r.op.what)) sent += out->data.numel;
  }
  CHECK(reduced == Numel{32 + 8 + 16 + 2});
  CHECK(sent == reduced);
  // All that rank 1 owns is frozen later: its shard is broadcast no more.
  for (Parameter& p : model.parameters) {
    p.requires_grad = run.engine->owner_of(model.find_parameter(p.name)) == 0;
  }
  run.collectives();
  require_ok(run_training_step(*run.engine, model, {}));
  for (const std::string& line : run.collectives()) CHECK(line.find(" 1") == std::string::npos);
}

TEST_CASE("no_sync ends however its scope is left (fairscale F8)", "[owner][defects]") {
  const Model model = mlp();
  RecordedOwners run(2, model);
  auto fails_inside = [&]() -> Status {
    const NoSync local(*run.engine);
    CHECK_FALSE(run.engine->requires_gradient_sync());
    { const NoSync nested(*run.engine); }
    CHECK_FALSE(run.engine->requires_gradient_sync());
    return run.engine->begin_backward();  // not in forward
  };
  CHECK_FALSE(fails_inside().ok());
  CHECK(run.engine->requires_gradient_sync());
}

TEST_CASE("a backward pass reduces or not as was said when it began", "[owner][defects]") {
  const Model model = mlp();
  RecordedOwners run(2, model);
  run.collectives();
  require_ok(run.engine->begin_forward());
  require_ok(run.engine->begin_backward());
  {
    const NoSync late(*run.engine);
    require_ok(run.engine->end_backward());
  }
  CHECK(run.collectives() == Lines{"reduce 72 to 1", "reduce 58 to 0"});
}

TEST_CASE("sharded_data_parallel refuses what it cannot do, naming it", "[owner][errors]") {
  Model model = mlp();
  Recording recording;
  const auto runtime = make_recording_runtime(2, recording);
  auto refused = [&](const ShardedDataParallelOptions& options, const std::string& part) {
    test::check_refused(sharded_data_parallel(*runtime, model, options).status(), part);
  };
  refused({.reduce_buffer_size = Numel{-1}}, "must not be negative, found -1");
  refused({.reduce_dtype = DType::int32}, "int32 is no dtype of gradients");
  {
    const auto engine = test::owned(*runtime, model);
    refused({}, "mlp is replicated or sharded on this runtime already");
    require_ok(engine->begin_forward());
    test::check_refused(engine->reduce(), "reduce was called in forward");
    require_ok(engine->begin_backward());
    require_ok(engine->grad_ready(ParameterId{0}));
    test::check_refused(engine->grad_ready(ParameterId{0}), "l0.weight became ready twice");
  }
  for (Parameter& p : model.parameters) p.requires_grad = false;
  refused({}, "no parameter that requires a gradient");
}

}  // namespace
}  // namespace tessera
