// SPDX-License-Identifier: Apache-2.0
// What is summoned is what the shards hold, and what is committed is what they hold afterwards, bit
// by bit, in every scheme.
#include <catch2/catch.hpp>
#include <set>

#include "tessera/sim/lockstep_runtime.h"
#include "tessera/training.h"
#include "tests/random.h"
#include "tests/sim/test_costs.h"
#include "tests/summon/scenes.h"

namespace tessera {
namespace {

using test::Random;
using test::require_ok;
using test::Shards;

float initial(ParameterId id, Numel i) {
  return 0.5F * static_cast<float>(id.value + 1) + 0.001F * static_cast<float>(i.value);
}

float changed(float value, Rank rank) { return -3 * value + static_cast<float>(rank); }

const std::vector<std::string> all_units = {"L1", "L2", "L3"};

struct Scene {
  Model model = test::g3();
  test::TestCosts costs;
  std::unique_ptr<sim::LockstepRuntime> runtime;
  std::unique_ptr<Engine> engine;

  Scene(const test::SummonScheme& scheme, Rank ranks,
        const std::vector<std::string>& units = all_units) {
    auto made =
        sim::LockstepRuntime::create({.world_size = ranks, .cost = &costs, .numerics = true});
    require_ok(made.status());
    runtime = std::move(*made);
    auto sharded = scheme.make(*runtime, model, units);
    require_ok(sharded.status());
    engine = std::move(*sharded);
    require_ok(engine->initialise(initial));
  }
  Shards shards() { return {*engine, model}; }
};

std::unique_ptr<FullParams> summon(Engine& engine, const SummonOptions& options) {
  auto full = summon_full_params(engine, options);
  require_ok(full.status());
  return std::move(*full);
}

// Checks every element on every rank that holds it.
void check_values(FullParams& full, const Model& model, Rank holders) {
  for (const ParameterId id : full.parameters()) {
    INFO(model.parameter(id).name);
    std::set<Rank> seen;
    std::size_t different = 0;
    require_ok(full.read(id, [&](Rank rank, std::span<const float> values) {
      seen.insert(rank);
      different +=
          values.size() == static_cast<std::size_t>(model.parameter(id).numel().value) ? 0 : 1;
      for (std::size_t i = 0; i < values.size(); ++i) {
        const float expected = initial(id, Numel{static_cast<std::int64_t>(i)});
        different += test::bits(values[i]) != test::bits(expected) ? 1 : 0;
      }
    }));
    CHECK(different == 0);
    CHECK(seen.size() == static_cast<std::size_t>(holders));
    CHECK(*seen.begin() == 0);
  }
}

void change_all(FullParams& full) {
  for (const ParameterId id : full.parameters()) {
    require_ok(full.modify(id, [](Rank rank, std::span<float> values) {
      for (float& value : values) value = changed(value, rank);
    }));
  }
}

// `from`: whose values the shards of a rank must be a part of; -1: unchanged.
void check_shards(Scene& scene, const std::function<Rank(Rank)>& from) {
  CHECK(scene.shards().different([&](Rank rank, ParameterId id, std::size_t i) {
    const float before = initial(id, Numel{static_cast<std::int64_t>(i)});
    return from(rank) < 0 ? before : changed(before, from(rank));
  }) == 0);
}

TEST_CASE("summoned values, commits and their absence, over schemes and worlds", "[summon]") {
  const std::uint64_t seed = GENERATE(range(1, 201));
  Random random(seed);
  const auto schemes = test::summon_schemes();
  const auto& scheme = schemes[random.next() % schemes.size()];
  const auto ranks = static_cast<Rank>(1 + random.below(8));
  std::vector<std::string> units;
  for (const char* unit : {"L1", "L2", "L3", "emb"}) {
    if (random.chance(60)) units.emplace_back(unit);
  }
  SummonOptions options{.writeback = random.chance(80),
                        .rank0_only = random.chance(50),
                        .offload_to_cpu = random.chance(50),
                        .with_grads = random.chance(30)};
  const bool commits = options.writeback && random.chance(60);
  const bool one_by_one = random.chance(40);
  INFO("seed=" << seed << " " << scheme.name << ", ranks " << ranks << ", units " << units.size()
               << ", rank0_only " << options.rank0_only << ", offload " << options.offload_to_cpu
               << ", commits " << commits << ", one by one " << one_by_one);
  Scene scene(scheme, ranks, units);
  std::size_t parameters = 0;
  auto use = [&](FullParams& full) {
    parameters += full.parameters().size();
    check_values(full, scene.model, options.rank0_only ? 1 : ranks);
    if (options.writeback) change_all(full);
    if (commits) require_ok(full.commit());
  };
  if (one_by_one) {
    require_ok(for_each_unit(*scene.engine, options, [&](const std::string&, FullParams& full) {
      use(full);
      return Status{};
    }));
  } else {
    auto full = summon(*scene.engine, options);
    use(*full);
    if (random.chance(50)) require_ok(full->close());  // otherwise destruction does it
  }
  CHECK(parameters == scene.model.parameters.size());
  check_shards(scene, [&](Rank rank) { return !commits ? -1 : options.rank0_only ? 0 : rank; });
  require_ok(scene.runtime->finish());
}

TEST_CASE("disjoint units are summoned at once, and each commits its own", "[summon]") {
  int schemes = 0;
  for (const auto& scheme : test::summon_schemes()) {
    INFO(scheme.name);
    Scene scene(scheme, 4);
    auto first = summon_full_params(*scene.engine, {.root = "L1"});
    if (!first.ok()) continue;  // a scheme of one unit
    ++schemes;
    const auto second = summon(*scene.engine, {.root = "L3"});
    check_values(**first, scene.model, 4);
    change_all(**first);
    change_all(*second);
    require_ok(second->commit());
    require_ok((*first)->close());  // and is lost
    require_ok(second->close());
    CHECK(scene.shards().different([&](Rank rank, ParameterId id, std::size_t i) {
      const float before = initial(id, Numel{static_cast<std::int64_t>(i)});
      return scene.model.parameter(id).name.starts_with("L3") ? changed(before, rank) : before;
    }) == 0);
    require_ok(run_training_step(*scene.engine, scene.model, {}));
  }
  CHECK(schemes >= 8);
}

TEST_CASE("a change is seen by later reads and by later commits only", "[summon]") {
  Scene scene(test::summon_schemes()[2], 3);
  const ParameterId weight = scene.model.find_parameter("L2.weight");
  auto full = summon(*scene.engine, {});
  change_all(*full);
  require_ok(full->read(weight, [&](Rank rank, std::span<const float> values) {
    CHECK(values[4] == changed(initial(weight, Numel{4}), rank));
  }));
  require_ok(full->commit());
  require_ok(full->modify(weight, [](Rank, std::span<float> values) { values[4] = 77; }));
  require_ok(full->close());
  check_shards(scene, [](Rank rank) { return rank; });
}

TEST_CASE("a visit that fails commits nothing and closes its unit", "[summon]") {
  Scene scene(test::summon_schemes()[2], 4);
  int visits = 0;
  const Status status = for_each_unit(*scene.engine, {}, [&](const std::string&, FullParams& full) {
    change_all(full);
    if (++visits < 2) return Status{};
    return Status(Code::cancelled, "enough");
  });
  CHECK(status.code() == Code::cancelled);
  CHECK(visits == 2);
  check_shards(scene, [](Rank) { return -1; });
  CHECK(summon_full_params(*scene.engine).ok());
}

TEST_CASE("rank 0's values reach every shard and every replica", "[summon]") {
  const auto schemes = test::summon_schemes();
  const std::size_t place = GENERATE(range(std::size_t{0}, std::size_t{16}));
  INFO(schemes[place].name);
  Scene scene(schemes[place], 6);
  auto full = summon(*scene.engine, {.rank0_only = true, .offload_to_cpu = GENERATE(false, true)});
  change_all(*full);
  require_ok(full->commit());
  require_ok(full->close());
  check_shards(scene, [](Rank) { return 0; });
}

TEST_CASE("parameters come in bfloat16 if the shards are", "[summon]") {
  Scene scene(test::flat_scheme("bfloat16", {.original_dtype = DType::bfloat16}), 3);
  const Shards before = scene.shards();
  auto full = summon(*scene.engine, {.offload_to_cpu = true});
  for (const ParameterId id : full->parameters()) {
    const auto expected = before.full(scene.model, id);
    require_ok(full->read(id, [&](Rank, std::span<const float> values) {
      CHECK(std::equal(values.begin(), values.end(), expected.begin(), expected.end()));
    }));
  }
  require_ok(full->commit());
  require_ok(full->close());
  CHECK(scene.shards().different([&](Rank, ParameterId id, std::size_t i) {
    return before.full(scene.model, id)[i];
  }) == 0);
}

TEST_CASE("recurse and root choose the units", "[summon]") {
  Scene scene(test::summon_schemes()[0], 2);
  auto names = [&](const SummonOptions& options) {
    const auto full = summon(*scene.engine, options);
    std::vector<std::string> out;
    for (const ParameterId id : full->parameters()) {
      out.push_back(scene.model.parameter(id).name);
    }
    return out;
  };
  CHECK(names({.root = "L2"}) == std::vector<std::string>{"L2.weight", "L2.bias"});
  CHECK(names({.recurse = false}) ==
        std::vector<std::string>{"emb.weight", "emb.bias", "head.weight", "head.bias"});
  CHECK(names({}).size() == 10);
}

}  // namespace
}  // namespace tessera
