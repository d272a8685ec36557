// SPDX-License-Identifier: Apache-2.0
// What always holds for buckets, and what unused parameters mean.
#include <catch2/catch.hpp>
#include <set>

#include "tessera/join.h"
#include "tessera/recording.h"
#include "tests/random.h"
#include "tests/schemes/fully_shard/faulty_runtime.h"
#include "tests/schemes/replicate/replicas.h"
#include "tests/schemes/replicate/watched_hook.h"

namespace tessera {
namespace {

using test::WatchedHook;

Model random_model(test::Random& random) {
  std::vector<test::Linear> layers;
  std::vector<std::string> order;
  const auto count = 1 + random.below(8);
  auto width = [&] { return static_cast<std::int64_t>(1 + random.below(9)); };
  for (std::int64_t k = 0; k < count; ++k) {
    layers.push_back({"m" + std::to_string(k), width(), width()});
    order.push_back(layers.back().path);
  }
  for (std::size_t k = order.size(); k > 1; --k) std::swap(order[k - 1], order[random.below(k)]);
  return test::linear_model("random", layers, order);
}

TEST_CASE("every parameter is in one bucket, in the same order on all ranks",
          "[reduce][property]") {
  const std::uint64_t seed = GENERATE(range(1, 101));
  INFO("seed=" << seed);
  test::Random random(seed);
  const Model model = random_model(random);
  const auto ranks = static_cast<Rank>(2 + random.below(6));
  const auto hook = std::make_shared<WatchedHook>(allreduce_hook());
  ReplicateOptions options{.comm_hook = hook};
  options.bucket_cap = Bytes{static_cast<std::int64_t>(1 + random.below(600))};
  options.first_bucket_cap = Bytes{static_cast<std::int64_t>(1 + random.below(300))};
  options.find_unused_parameters = random.chance(40);
  options.static_graph = random.chance(30);
  const bool maps = options.find_unused_parameters && !options.static_graph;
  Recording recording;
  const auto runtime = make_recording_runtime(ranks, recording);
  auto engine = replicate(*runtime, model, options);
  REQUIRE(engine.ok());
  for (int step = 0; step < 4; ++step) {
    hook->calls.clear();
    const std::size_t before = recording.records.size();
    test::require_ok(run_training_step(**engine, model, {}));
    std::size_t reduces = 0;
    for (std::size_t k = before; k < recording.records.size(); ++k) {
      const Record& r = recording.records[k];
      if (!std::holds_alternative<AllReduce>(r.op.what)) continue;
      CHECK(r.where == RankSet::all(ranks));
      ++reduces;
    }
    std::set<ParameterId> seen;
    Numel numel{};
    for (std::size_t b = 0; b < hook->calls.size(); ++b) {
      const GradBucket& bucket = hook->calls[b]->bucket;
      CHECK(bucket.index == b);
      CHECK(bucket.is_last == (b + 1 == hook->calls.size()));
      for (const BucketParameter& p : bucket.parameters) CHECK(seen.insert(p.id).second);
      numel += bucket.values.numel;
    }
    CHECK(seen.size() == model.parameters.size());
    CHECK(bytes_of(numel, DType::float32) == model.parameter_count().value * Bytes{4});
    CHECK((*engine)->units().size() == hook->calls.size());
    CHECK(reduces == hook->calls.size() + (maps ? 1 : 0));
  }
}

TEST_CASE("parameters that no rank uses keep their values", "[reduce][numerics]") {
  const Model model =
      test::linear_model("partly", {{"a", 4, 4}, {"unused", 3, 3}, {"b", 4, 4}}, {"a", "b"});
  ReplicateOptions options{.bucket_cap = Bytes{40}, .first_bucket_cap = Bytes{40}};
  options.gradient_as_bucket_view = GENERATE(false, true);
  options.find_unused_parameters = GENERATE(false, true);
  options.static_graph = !options.find_unused_parameters || GENERATE(false, true);
  INFO("views " << options.gradient_as_bucket_view << ", unused " << options.find_unused_parameters
                << ", static " << options.static_graph);
  test::Replicas replicas(3, model, options);
  test::require_ok(replicas.engine->initialise(test::initial_value));
  TrainingOptions training = test::formula_training(model);
  training.adam.weight_decay = 0.1F;  // a gradient of zero would still decay them
  for (int step = 0; step < 4; ++step) {
    test::require_ok(run_training_step(*replicas.engine, model, training));
  }
  int checked = 0;
  for (const char* name : {"unused.weight", "unused.bias"}) {
    const ParameterId id = model.find_parameter(name);
    test::require_ok(replicas.engine->inspect_shards(id, [&](Rank, Numel first,
                                                             std::span<const float> values) {
      for (std::size_t i = 0; i < values.size(); ++i, ++checked) {
        CHECK(values[i] == test::initial_value(id, first + Numel{static_cast<std::int64_t>(i)}));
      }
    }));
  }
  CHECK(checked == 3 * (9 + 3));
  test::require_ok(replicas.runtime->finish());
}

// Forward and backward of some modules with real gradients.
void run_modules(Engine& engine, const Model& model, const std::vector<std::string>& modules,
                 bool sync) {
  const TrainingOptions training = test::formula_training(model);
  engine.set_requires_gradient_sync(sync);
  test::require_ok(engine.begin_forward());
  for (const auto& path : modules) {
    test::require_ok(engine.compute({.module = model.find_module(path)}));
  }
  test::require_ok(engine.begin_backward());
  for (const auto& path : modules) {
    const ModuleId id = model.find_module(path);
    test::require_ok(engine.compute({.module = id,
                                     .pass = ModuleWork::Pass::backward,
                                     .body = training.body(id, ModuleWork::Pass::backward, 0)}));
    for (ParameterId p : model.module(id).parameters) test::require_ok(engine.grad_ready(p));
  }
  test::require_ok(engine.end_backward());
}

TEST_CASE("a gradient that nobody computed is none, whatever the bucket has",
          "[reduce][numerics]") {
  const Model model = test::linear_model("one", {{"a", 2, 2}}, {"a"});
  const test::TestCosts costs;
  auto runtime = sim::LockstepRuntime::create({.world_size = 2, .cost = &costs, .numerics = true});
  REQUIRE(runtime.ok());
  auto engine = replicate(**runtime, model, {});
  REQUIRE(engine.ok());
  Engine& e = **engine;
  for (int step = 0; step < 2; ++step) {  // the first one rebuilds buckets
    run_modules(e, model, {"a"}, /*sync=*/true);
    test::require_ok(e.step({}));
  }
  test::require_ok(e.begin_forward());
  test::require_ok(e.begin_backward());
  for (ParameterId p : {ParameterId{0}, ParameterId{1}}) test::require_ok(e.grad_ready(p));
  test::require_ok(e.end_backward());
  float norm = -1;
  test::require_ok(e.clip_grad_norm(1, 2, [&](Rank, float total) { norm = total; }));
  CHECK(norm == 0);
}

TEST_CASE("the map of used parameters counts the ranks that used them", "[reduce][numerics]") {
  const Rank ranks = 3;
  const Model model =
      test::linear_model("three", {{"a", 2, 2}, {"b", 2, 2}, {"never", 2, 2}}, {"a", "b"});
  const test::TestCosts costs;
  auto simulator =
      sim::LockstepRuntime::create({.world_size = ranks, .cost = &costs, .numerics = true});
  REQUIRE(simulator.ok());
  View map;
  test::FaultyRuntime watched(**simulator, [&map](const Op& op) -> std::vector<Op> {
    const auto* reduce = std::get_if<AllReduce>(&op.what);
    if (reduce != nullptr && reduce->output.numel == Numel{6}) map = reduce->output;
    return {op};
  });
  auto engine = replicate(watched, model, {.find_unused_parameters = true});
  REQUIRE(engine.ok());
  auto join = Join::enter(**engine);
  test::require_ok(join->step(RankSet::of({0, 2})));
  run_modules(**engine, model, {"a", "b"}, /*sync=*/false);
  run_modules(**engine, model, {"a"}, /*sync=*/true);
  REQUIRE(map.dtype == DType::int32);
  for (std::int64_t k = 0; k < 6; ++k) {
    auto count = watched.read(View::part(map.buffer, DType::int32, Numel{k}, Numel{1}));
    REQUIRE(count.ok());
    CHECK((*count)[1] == (k < 4 ? 2.0F : 0.0F));
  }
}

TEST_CASE("a gradient that this backward did not touch is reduced once", "[reduce][numerics]") {
  const Rank ranks = 2;
  const Model model = test::linear_model("two", {{"a", 4, 4}, {"b", 4, 3}}, {"a", "b"});
  ReplicateOptions options{.find_unused_parameters = true};
  options.gradient_as_bucket_view = GENERATE(false, true);
  const bool first_synced = GENERATE(false, true);
  INFO("views " << options.gradient_as_bucket_view << ", first synced " << first_synced);
  test::Replicas replicas(ranks, model, options);
  test::require_ok(replicas.engine->initialise(test::initial_value));
  run_modules(*replicas.engine, model, {"a", "b"}, first_synced);
  run_modules(*replicas.engine, model, {"a"}, true);  // b was used before, not here
  test::require_ok(replicas.engine->step(test::formula_adam()));
  test::FormulaTraining reference(model);
  reference.step(RankSet::all(ranks), ranks, static_cast<float>(ranks));
  for (const char* of_a : {"a.weight", "a.bias"}) {
    reference.elements.erase(model.find_parameter(of_a).value);
  }
  reference.check(*replicas.engine, ranks);
  test::require_ok(replicas.runtime->finish());
}

}  // namespace
}  // namespace tessera
