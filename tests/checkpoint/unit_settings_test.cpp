// SPDX-License-Identifier: Apache-2.0
// Units of one model with meshes and memories of their own train as one scheme for all does, and
// their checkpoints go anywhere.
#include <algorithm>

#include "tests/checkpoint/every_scheme.h"
#include "tests/checkpoint/scene.h"
#include "tests/training/reference/real_models.h"

namespace tessera {
namespace {

using test::require_ok;
using test::SimulatedRun;

struct Case {
  Model model;
  std::vector<std::string> units;
  std::int64_t sequence = 1;
};

Case case_of(std::int64_t which) {
  switch (which) {
    case 0: return {test::repeated(), {"pair", "shared"}};
    case 1: return {test::tiny_gpt2(), {"h.0", "h.1"}, 5};
    default: return {test::frozen_and_tied(), {"frozen", "norm"}, 3};
  }
}

UnitOverrides drawn(test::Random& random, Rank ranks) {
  UnitOverrides own;
  const Index half = ranks % 2 == 0 ? static_cast<Index>(ranks / 2) : ranks;
  switch (random.below(4)) {
    case 0: own.shard_group = 1; break;
    case 1: own.shard_group = half; break;
    case 2: own.shard_group = 0; break;
    default: break;
  }
  if (random.chance(40)) own.offload_params = true;
  if (random.chance(30)) own.reshard_after_forward = random.chance(50);
  return own;
}

FullyShardOptions mixed_units(const Case& c, Rank ranks, test::Random& random) {
  WrapContext context(c.model);
  const auto scope = test::require_value(context.enable_wrap());
  for (const std::string& path : c.units) require_ok(context.wrap(path, drawn(random, ranks)));
  return {.plan = test::require_value(context.plan({.root = drawn(random, ranks)})),
          .shard_group = random.chance(50) && ranks % 2 == 0 ? static_cast<Index>(ranks / 2) : 0};
}

void check_near(const test::Contents& a, const test::Contents& b, const Model& model) {
  for (std::size_t p = 0; p < model.parameters.size(); ++p) {
    INFO(model.parameters[p].name);
    for (std::size_t i = 0; i < a.values[p].size(); ++i) {
      CHECK(a.values[p][i] == Approx(b.values[p][i]).epsilon(1e-4).margin(1e-5));
    }
  }
}

TEST_CASE("units with meshes of their own train like those of one mesh", "[shard][property]") {
  const std::uint64_t seed = GENERATE(range(std::uint64_t{1}, test::generated(25) + 1));
  test::Random random(seed);
  const Rank ranks = std::array{2, 3, 4, 8}[static_cast<std::size_t>(random.below(4))];
  const Case c = case_of(random.below(3));
  INFO("seed " << seed << ": " << c.model.name << " on " << ranks);
  SimulatedRun mixed(c.model, mixed_units(c, ranks, random), ranks, c.sequence);
  SimulatedRun plain(c.model, FullyShardOptions{.units = c.units}, ranks, c.sequence);
  for (int step = 0; step < 3; ++step) {
    for (SimulatedRun* run : {&mixed, &plain}) run->step(0.05F);
  }
  CHECK(mixed.loss() == Approx(plain.loss()).epsilon(1e-5));
  check_near(mixed.contents(), plain.contents(), c.model);
  mixed.finish();
  plain.finish();
}

TEST_CASE("a checkpoint of units with meshes of their own goes into any scheme and back",
          "[checkpoint][property]") {
  const std::uint64_t seed = GENERATE(range(std::uint64_t{1}, test::generated(25) + 1));
  test::Random random(seed);
  const Case c = case_of(random.below(3));
  const auto others = test::every_scheme(c.units, 4);
  const auto other = static_cast<std::size_t>(random.below(std::ssize(others)));
  INFO("seed " << seed << ": " << c.model.name << ", scheme " << other);
  const test::TemporaryFolder there, back;
  SimulatedRun saved(c.model, mixed_units(c, 4, random), 4, c.sequence);
  saved.step();
  saved.step();
  const test::Contents contents = saved.contents();
  saved.save(there.path(), 2);
  require_ok(verify_checkpoint(there.path()));
  SimulatedRun between(c.model, others[other], 4, c.sequence);
  require_ok(load_checkpoint(between.engine(), there.path()).status());
  test::check_same(between.contents(), contents, c.model);
  between.save(back.path(), 2);
  SimulatedRun loaded(c.model, mixed_units(c, 2, random), 2, c.sequence);
  require_ok(load_checkpoint(loaded.engine(), back.path()).status());
  test::check_same(loaded.contents(), contents, c.model);
  for (SimulatedRun* run : {&saved, &between, &loaded}) run->finish();
}

}  // namespace
}  // namespace tessera
