// SPDX-License-Identifier: Apache-2.0
#include "engine/base/beta_power.h"

#include <catch2/catch.hpp>

#include "engine/base/optimizer_step.h"
#include "tests/base/every_scheme.h"

namespace tessera {
namespace {

float multiplied(float beta, std::int64_t t) {
  float product = 1;
  for (std::int64_t i = 0; i < t; ++i) product *= beta;
  return product;
}

}  // namespace

TEST_CASE("a power of beta has the bits of t multiplications, at every step") {
  const float beta = GENERATE(0.9F, 0.95F, 0.999F);
  BetaPower power;
  for (std::int64_t t = 1; t <= 3000; ++t) {
    INFO("t " << t);
    REQUIRE(power.at(beta, t) == multiplied(beta, t));
  }
}

TEST_CASE("a step costs one multiplication by beta, however many were taken before") {
  BetaPower power;
  for (std::int64_t t = 1; t <= 100'000; ++t) {
    const std::int64_t before = power.multiplications();
    power.at(0.999F, t);
    REQUIRE(power.multiplications() - before == 1);
  }
  const std::int64_t before = power.multiplications();
  power.at(0.999F, 100'000);  // the same step again, of another shard
  CHECK(power.multiplications() == before);
}

TEST_CASE("another beta, or an earlier step, is multiplied anew once") {
  BetaPower power;
  power.at(0.9F, 50);
  CHECK(power.at(0.95F, 40) == multiplied(0.95F, 40));
  CHECK(power.multiplications() == 90);
  CHECK(power.at(0.95F, 10) == multiplied(0.95F, 10));
  CHECK(power.multiplications() == 100);
  CHECK(power.at(0.95F, 0) == 1.0F);
}

// What powers of beta cost in one step of the optimizer, in all schemes.
TEST_CASE("a loaded step number is multiplied once, the steps after it cost as much as the first") {
  const Model model = test::g3();
  test::EveryScheme run(GENERATE(range(0, test::EveryScheme::count)), 2, model);
  INFO(run.name);
  OptimizerStep& optimizer = run.engine->sharded_state()->parts().optimizer;
  auto cost_of_step = [&] {
    const std::int64_t before = optimizer.beta_multiplications();
    test::require_ok(run_training_step(*run.engine, model, test::formula_training(model)));
    return optimizer.beta_multiplications() - before;
  };
  const std::int64_t first = cost_of_step();
  const auto trained = static_cast<std::int64_t>(model.parameters.size());
  CHECK(first == 2 * trained);
  CHECK(cost_of_step() == first);
  constexpr std::int64_t loaded = 2000;
  for (std::int64_t p = 0; p < trained; ++p) {
    optimizer.set_steps_taken(ParameterId{static_cast<std::int32_t>(p)}, loaded);
  }
  CHECK(cost_of_step() == 2 * trained * (loaded + 1 - 2));
  CHECK(cost_of_step() == first);
}

}  // namespace tessera
