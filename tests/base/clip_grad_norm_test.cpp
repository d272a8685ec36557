// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

#include "tessera/scheme.h"
#include "tessera/sim/lockstep_runtime.h"
#include "tessera/training.h"
#include "tests/base/models.h"
#include "tests/random.h"
#include "tests/sim/test_costs.h"

namespace tessera {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

float gradient(ParameterId id, std::size_t i) {
  return 0.1F * static_cast<float>(id.value + 1) - 0.07F * static_cast<float>(i % 9);
}

// Every rank finds the same gradient, so that the mean is known.
TrainingOptions with_bodies(const Model& model) {
  TrainingOptions training;
  training.body = [&model](ModuleId module, ModuleWork::Pass pass,
                           std::int32_t) -> std::function<void(const BodyContext&)> {
    if (pass != ModuleWork::Pass::backward) return {};
    return [parameters = model.module(module).parameters](const BodyContext& context) {
      for (std::size_t k = 0; k < parameters.size(); ++k) {
        const auto g = context.write_as<float>(k);
        for (std::size_t i = 0; i < g.size(); ++i) g[i] += gradient(parameters[k], i);
      }
    };
  };
  return training;
}

double unsharded_norm(const Model& model, double p) {
  double sum = 0;
  for (std::size_t k = 0; k < model.parameters.size(); ++k) {
    const auto n = static_cast<std::size_t>(model.parameters[k].numel().value);
    for (std::size_t i = 0; i < n; ++i) {
      const double g = std::fabs(gradient(ParameterId{static_cast<std::int32_t>(k)}, i));
      sum = std::isinf(p) ? std::max(sum, g) : sum + (p == 1 ? g : g * g);
    }
  }
  return p == 2 ? std::sqrt(sum) : sum;
}

Scheme scheme(int number) {
  const std::vector<std::string> units = {"L1", "L2"};
  switch (number) {
    case 0: return FullyShardOptions{.units = units};
    case 1: return FullyShardOptions{.units = units, .shard_group = 2};
    case 2: return Fsdp1Options{.units = units};
    case 3: return Fsdp1Options{.units = units, .strategy = ShardingStrategy::no_shard};
    case 4:
      return Fsdp1Options{
          .units = units, .strategy = ShardingStrategy::hybrid_shard, .shard_group = 2};
    default: return ReplicateOptions{};
  }
}

// Forward and backward, but not yet the optimizer.
Status gradients(Engine& engine, const Model& model, const TrainingOptions& training) {
  TESSERA_TRY(engine.begin_forward());
  TESSERA_TRY(engine.pre_forward(ModuleId{0}));
  for (ModuleId m : model.forward) {
    TESSERA_TRY(engine.pre_forward(m));
    TESSERA_TRY(engine.compute({.module = m}));
    TESSERA_TRY(engine.post_forward(m));
  }
  TESSERA_TRY(engine.post_forward(ModuleId{0}));
  TESSERA_TRY(engine.begin_backward());
  TESSERA_TRY(engine.pre_backward(ModuleId{0}));
  for (auto m = model.forward.rbegin(); m != model.forward.rend(); ++m) {
    TESSERA_TRY(engine.pre_backward(*m));
    ModuleWork work{.module = *m, .pass = ModuleWork::Pass::backward};
    work.body = training.body(*m, work.pass, 0);
    TESSERA_TRY(engine.compute(work));
    for (ParameterId p : model.module(*m).parameters) TESSERA_TRY(engine.grad_ready(p));
    TESSERA_TRY(engine.post_backward(*m));
  }
  TESSERA_TRY(engine.post_backward(ModuleId{0}));
  return engine.end_backward();
}

TEST_CASE("the norm of sharded gradients is that of unsharded ones, on every rank", "[shard]") {
  const int number = GENERATE(range(0, 6));
  const double p = GENERATE(1.0, 2.0, infinity);
  const Model model = test::g3();
  const test::TestCosts costs;
  auto runtime = sim::LockstepRuntime::create({.world_size = 4, .cost = &costs, .numerics = true});
  REQUIRE(runtime.ok());
  auto engine = make_engine(**runtime, model, scheme(number));
  INFO("scheme " << number << ", p " << p << " " << engine.status().message());
  REQUIRE(engine.ok());
  REQUIRE((*engine)->initialise([](ParameterId, Numel) { return 1.0F; }).ok());
  const TrainingOptions training = with_bodies(model);
  const Status ready = gradients(**engine, model, training);
  INFO(ready.message());
  REQUIRE(ready.ok());
  const double norm = unsharded_norm(model, p);
  const float max_norm = static_cast<float>(norm / 3);
  int ranks = 0;
  auto check = [&](double expected) {
    return [&ranks, expected](Rank, float total) {
      CHECK(total == Approx(expected).epsilon(1e-5));
      ++ranks;
    };
  };
  REQUIRE((*engine)->clip_grad_norm(max_norm, p, check(norm)).ok());
  // Clipped gradients have the norm that was asked for, and are left alone by a larger one.
  REQUIRE((*engine)->clip_grad_norm(max_norm * 2, p, check(max_norm)).ok());
  REQUIRE((*engine)->clip_grad_norm(max_norm * 2, p, check(max_norm)).ok());
  CHECK(ranks == 12);
  CHECK((*engine)->step({}).ok());
}

TEST_CASE("clip_grad_norm refuses other norms and other times", "[shard][errors]") {
  const Model model = test::g3();
  const test::TestCosts costs;
  auto runtime = sim::LockstepRuntime::create({.world_size = 2, .cost = &costs});
  REQUIRE(runtime.ok());
  auto engine = make_engine(**runtime, model, Fsdp1Options{.units = {"L1"}});
  REQUIRE(engine.ok());
  CHECK((*engine)->clip_grad_norm(1, 3, {}).code() == Code::not_supported);
  CHECK((*engine)->clip_grad_norm(-1, 2, {}).code() == Code::invalid_argument);
  REQUIRE((*engine)->begin_forward().ok());
  const Status early = (*engine)->clip_grad_norm(1, 2, {});
  CHECK(early.code() == Code::invalid_argument);
  CHECK(early.message().find("clip_grad_norm was called in forward") != std::string::npos);
}

}  // namespace
}  // namespace tessera
