// SPDX-License-Identifier: Apache-2.0
// deepspeed.zero.GatheredParameters, with zero3.
#include "tessera/sim/lockstep_runtime.h"
#include "tessera/training.h"
#include "tests/sim/test_costs.h"
#include "tests/summon/scenes.h"

namespace tessera {
namespace {

using test::require_ok;

constexpr Rank ranks = 3;
constexpr ParameterId first{0};

struct Gathering {
  Model model = test::g3();
  test::TestCosts costs;
  std::unique_ptr<sim::LockstepRuntime> runtime;
  std::unique_ptr<Zero3> engine;

  explicit Gathering(Zero3Policy policy) {
    auto made =
        sim::LockstepRuntime::create({.world_size = ranks, .cost = &costs, .numerics = true});
    require_ok(made.status());
    runtime = std::move(*made);
    auto sharded = zero3(*runtime, model, {.policy = policy});
    require_ok(sharded.status());
    engine = std::move(*sharded);
    require_ok(
        engine->initialise([](ParameterId, Numel i) { return static_cast<float>(i.value); }));
    require_ok(run_training_step(*engine, model, {}));  // leaves persistent parameters gathered
  }
  // Rank r's copy becomes 10 + r.
  void write(FullParams& full) {
    require_ok(full.modify(first, [](Rank r, std::span<float> values) {
      for (float& value : values) value = 10.0F + static_cast<float>(r);
    }));
  }
  std::vector<float> shards() { return test::Shards(*engine, model).full(model, first); }
};

Zero3Policy any_policy() { return GENERATE(Zero3Policy::strict, Zero3Policy::compatible); }

TEST_CASE("with a modifier rank its values become everybody's partitions", "[summon][zero3]") {
  Gathering g(any_policy());
  auto full = summon_full_params(*g.engine, {.rank0_only = true});
  require_ok(full.status());
  g.write(**full);
  require_ok((*full)->commit());
  require_ok((*full)->close());
  CHECK(g.shards() == std::vector<float>(20, 10.0F));
  // The next pass sees them, what was left gathered included.
  auto again = summon_full_params(*g.engine, {});
  require_ok(again.status());
  require_ok((*again)->read(first, [](Rank, std::span<const float> values) {
    CHECK(std::vector<float>(values.begin(), values.end()) == std::vector<float>(20, 10.0F));
  }));
}

TEST_CASE("without one changes are lost on exit, and on a forgotten exit", "[summon][zero3]") {
  Gathering g(any_policy());
  const std::vector<float> before = g.shards();
  {
    auto full = summon_full_params(*g.engine, {});
    require_ok(full.status());
    g.write(**full);
  }
  CHECK(g.shards() == before);
  auto read_only = summon_full_params(*g.engine, {.writeback = false});
  require_ok(read_only.status());
  CHECK((*read_only)->modify(first, [](Rank, std::span<float>) {}).code() ==
        Code::invalid_argument);
  require_ok((*read_only)->close());
}

TEST_CASE("gathering inside of gathering and inside of a pass is refused", "[summon][zero3]") {
  Gathering g(any_policy());
  {
    auto full = summon_full_params(*g.engine, {});
    require_ok(full.status());
    CHECK(summon_full_params(*g.engine, {}).status().code() == Code::invalid_argument);
    CHECK(g.engine->begin_forward().code() == Code::invalid_argument);
    CHECK(g.engine->partition_all_parameters().code() == Code::invalid_argument);
  }
  require_ok(g.engine->begin_forward());
  CHECK(summon_full_params(*g.engine, {}).status().code() == Code::invalid_argument);
}

TEST_CASE("partition_all_parameters leaves nothing gathered, and training goes on",
          "[summon][zero3]") {
  const Zero3Policy policy = any_policy();
  Gathering g(policy);
  Gathering other(policy);
  for (int step = 0; step < 3; ++step) {
    // Without a step the first module's parameters are left over as well.
    require_ok(run_training_step(*g.engine, g.model, {.passes = {{}}}));
    require_ok(run_training_step(*other.engine, other.model, {.passes = {{}}}));
    require_ok(g.engine->partition_all_parameters());
    CHECK(g.engine->live().empty());
    require_ok(run_training_step(*g.engine, g.model, {}));
    require_ok(run_training_step(*other.engine, other.model, {}));
  }
  CHECK(g.shards() == other.shards());
  require_ok(g.runtime->finish());
}

}  // namespace
}  // namespace tessera
