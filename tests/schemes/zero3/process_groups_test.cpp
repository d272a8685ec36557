// SPDX-License-Identifier: Apache-2.0
// The data-parallel groups of a model-parallel job: each trains what a world of its size would.
#include <catch2/catch.hpp>

#include "tessera/sim/lockstep_runtime.h"
#include "tessera/summon.h"
#include "tessera/training.h"
#include "tessera/zero3.h"
#include "tests/base/models.h"
#include "tests/require_ok.h"
#include "tests/sim/test_costs.h"

namespace tessera {
namespace {

using test::require_ok;
using Groups = std::vector<std::vector<Rank>>;
using Values = std::map<std::pair<Rank, std::int32_t>, std::vector<float>>;

float initial(ParameterId id, Numel i) {
  return 0.01F * static_cast<float>(id.value + 1) + 0.001F * static_cast<float>(i.value % 17);
}

// Gradients that differ between the places in a group.
TrainingOptions training(const Model& model, const RankGroups& groups) {
  TrainingOptions out{.adam = {.epsilon = 1}};
  out.body = [&model, &groups](ModuleId module, ModuleWork::Pass pass,
                               std::int32_t) -> std::function<void(const BodyContext&)> {
    if (pass != ModuleWork::Pass::backward) return {};
    const std::size_t count = model.module(module).parameters.size();
    return [count, &groups](const BodyContext& context) {
      const auto place = static_cast<float>(groups.index_of(context.rank()) + 1);
      for (std::size_t k = 0; k < count; ++k) {
        const auto p = context.read_as<float>(k);
        const auto g = context.write_as<float>(k);
        for (std::size_t i = 0; i < g.size(); ++i) {
          g[i] += p[i] * place + 0.125F + 0.01F * static_cast<float>(i % 5);
        }
      }
    };
  };
  return out;
}

struct World {
  test::TestCosts costs;
  Model model = test::g3();
  RankGroups groups;
  std::unique_ptr<sim::LockstepRuntime> runtime;
  std::unique_ptr<Zero3> engine;

  World(Rank ranks, const RankGroups& each, const Zero3Options& options) : groups(each) {
    runtime = test::require_value(
        sim::LockstepRuntime::create({.world_size = ranks, .cost = &costs, .numerics = true}));
    engine = test::require_value(zero3(*runtime, model, options));
    require_ok(engine->initialise(initial));
  }

  Values after_steps() {
    for (int step = 0; step < 3; ++step) {
      require_ok(run_training_step(*engine, model, training(model, groups)));
    }
    require_ok(runtime->finish());
    Values out;
    for (std::int32_t p = 0; p < static_cast<std::int32_t>(model.parameters.size()); ++p) {
      require_ok(engine->inspect_shards(ParameterId{p},
                                        [&](Rank rank, Numel, std::span<const float> values) {
                                          out[{rank, p}] = {values.begin(), values.end()};
                                        }));
    }
    return out;
  }
};

TEST_CASE("each process group trains what a world of its size would", "[zero3][groups]") {
  const auto [ranks, members] = GENERATE(table<Rank, Groups>({
      {4, {{0, 2}, {1, 3}}},
      {6, {{3, 4, 5}, {0, 1, 2}}},
      {5, {{4, 1}}},
      {3, {{0}, {1}, {2}}},
  }));
  Zero3Options options{.policy = GENERATE(Zero3Policy::strict, Zero3Policy::compatible,
                                          Zero3Policy::compatible_0_19)};
  options.persistence_threshold = Numel{GENERATE(0, 10)};
  if (GENERATE(false, true)) options.offload_optimizer.device = Offload::Device::cpu;
  const auto size = static_cast<Rank>(members[0].size());
  const RankGroups alone = test::require_value(RankGroups::strided(size, size));
  const Values expected = World(size, alone, options).after_steps();
  options.groups = test::require_value(RankGroups::of(members));
  const Values found = World(ranks, *options.groups, options).after_steps();
  CHECK(found.size() == expected.size() * members.size());
  for (const auto& group : members) {
    for (const auto& [key, values] : expected) {
      const Rank rank = group[static_cast<std::size_t>(key.first)];
      INFO("rank " << rank << ", parameter " << key.second);
      CHECK(found.at({rank, key.second}) == values);
    }
  }
}

TEST_CASE("the first rank of a group commits for it", "[zero3][groups][summon]") {
  World world(4, test::require_value(RankGroups::of({{0, 2}, {1, 3}})),
              {.groups = test::require_value(RankGroups::of({{0, 2}, {1, 3}}))});
  const ParameterId first{0};
  auto full = test::require_value(summon_full_params(*world.engine, {.rank0_only = true}));
  require_ok(full->modify(first, [](Rank rank, std::span<float> values) {
    for (float& v : values) v = 10 + static_cast<float>(rank);
  }));
  require_ok(full->commit());
  require_ok(full->close());
  require_ok(
      world.engine->inspect_shards(first, [](Rank rank, Numel, std::span<const float> values) {
        for (const float v : values) CHECK(v == 10 + static_cast<float>(rank % 2));
      }));
}

TEST_CASE("process groups beside groups of nodes are refused", "[zero3][groups][errors]") {
  test::TestCosts costs;
  const Model model = test::g3();
  const auto refused = [&](const Zero3Options& options, const std::string& part) {
    const auto runtime = test::require_value(
        sim::LockstepRuntime::create({.world_size = 4, .cost = &costs, .numerics = true}));
    const Status status = zero3(*runtime, model, options).status();
    INFO(status.message());
    CHECK(status.code() == Code::invalid_argument);
    CHECK(status.message().find(part) != std::string::npos);
  };
  refused({.shard_group = 2, .group_size = 2}, "cannot be combined with shard_group");
  refused({.group_size = 2, .plus_plus = {.secondary_group = 2}}, "secondary groups");
  refused({.group_size = 3}, "3");
}

}  // namespace
}  // namespace tessera
