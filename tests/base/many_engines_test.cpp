// SPDX-License-Identifier: Apache-2.0
// One runtime carries many engines, one after another and several at once.
#include <catch2/catch.hpp>

#include "tests/base/every_scheme.h"

namespace tessera {
namespace {

using test::require_ok;

struct World {
  test::TestCosts costs;
  std::unique_ptr<sim::LockstepRuntime> runtime;

  World() {
    auto made = sim::LockstepRuntime::create({.world_size = 2, .cost = &costs, .numerics = true});
    REQUIRE(made.ok());
    runtime = std::move(*made);
  }
};

std::vector<float> values_of(Engine& engine, const Model& model) {
  std::vector<float> all;
  for (std::size_t k = 0; k < model.parameters.size(); ++k) {
    const ParameterId id{static_cast<std::int32_t>(k)};
    require_ok(engine.inspect_shards(id, [&](Rank, Numel, std::span<const float> some) {
      all.insert(all.end(), some.begin(), some.end());
    }));
  }
  return all;
}

std::unique_ptr<Engine> engine_on(Runtime& runtime, const Model& model, const Scheme& scheme) {
  auto engine = make_engine(runtime, model, scheme);
  INFO(name_of(scheme) << ": " << engine.status().message());
  REQUIRE(engine.ok());
  require_ok((*engine)->initialise(test::initial_value));
  return std::move(*engine);
}

TEST_CASE("fifty engines one after another need the streams and memory of one", "[engines]") {
  const Model model = test::g3();
  const Scheme scheme = test::scheme_at(GENERATE(range(0, test::EveryScheme::count)));
  INFO(name_of(scheme));
  World world;
  std::vector<float> first;
  Bytes peak{};
  for (int k = 0; k < 50; ++k) {
    const auto engine = engine_on(*world.runtime, model, scheme);
    require_ok(run_training_step(*engine, model, test::formula_training(model)));
    const auto values = values_of(*engine, model);
    require_ok(world.runtime->wait());
    if (k == 0) {
      first = values;
      peak = world.runtime->peak_reserved();
    }
    REQUIRE(values == first);
  }
  CHECK(world.runtime->peak_reserved() == peak);
  require_ok(world.runtime->finish());
}

TEST_CASE("schemes take turns on one runtime without a wait between them", "[engines]") {
  const Model model = test::g3();
  World world;
  std::vector<std::vector<float>> first(test::EveryScheme::count);
  for (int k = 0; k < 50; ++k) {
    const int index = k % test::EveryScheme::count;
    const auto engine = engine_on(*world.runtime, model, test::scheme_at(index));
    require_ok(run_training_step(*engine, model, test::formula_training(model)));
    auto& expected = first[static_cast<std::size_t>(index)];
    const auto values = values_of(*engine, model);
    if (expected.empty()) expected = values;
    REQUIRE(values == expected);
  }
  require_ok(world.runtime->finish());
}

TEST_CASE("more engines at once than there are streams share them", "[engines]") {
  const std::vector<Model> models(12, test::g3());
  const Scheme scheme = test::scheme_at(GENERATE(0, 1, 5));
  World world;
  std::vector<std::unique_ptr<Engine>> engines;
  for (const Model& model : models) engines.push_back(engine_on(*world.runtime, model, scheme));
  for (int step = 0; step < 2; ++step) {
    for (std::size_t k = 0; k < engines.size(); ++k) {
      require_ok(run_training_step(*engines[k], models[k], test::formula_training(models[k])));
    }
  }
  const auto expected = values_of(*engines[0], models[0]);
  for (std::size_t k = 1; k < engines.size(); ++k) {
    CHECK(values_of(*engines[k], models[k]) == expected);
  }
  require_ok(world.runtime->finish());
}

}  // namespace
}  // namespace tessera
