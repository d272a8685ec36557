// SPDX-License-Identifier: Apache-2.0
// Out of one scheme and number of ranks, into another: training goes on with the same bits.
#include "tests/checkpoint/every_scheme.h"
#include "tests/checkpoint/scene.h"
#include "tests/training/reference/real_models.h"

namespace tessera {
namespace {

using test::require_ok;
using test::SimulatedRun;

constexpr Rank worlds[] = {1, 2, 3, 4, 8};

struct Kind {
  Model model;
  std::vector<std::string> units;
  std::int64_t sequence = 1;
};

Kind kind(std::int64_t which) {
  switch (which) {
    case 0: return {test::repeated(), {"pair", "shared"}};
    case 1: return {test::tiny_gpt2(), {"h.0", "h.1"}, 5};
    default: return {test::frozen_and_tied(), {"frozen", "norm"}, 3};
  }
}

// Half of the parameters are stepped from the second step on, one never.
void group(Engine& engine, const Model& model, int step) {
  ParamGroup first, later;
  for (std::size_t p = 0; p + 1 < model.parameters.size(); ++p) {
    (p % 2 == 0 ? first : later).parameters.push_back(ParameterId{static_cast<std::int32_t>(p)});
  }
  later.adam.weight_decay = 0.25F;
  if (step == 0) require_ok(engine.set_param_groups({first}));
  if (step == 1) require_ok(engine.add_param_group(later));
}

TEST_CASE("a checkpoint goes on under another scheme and number of ranks, bit by bit",
          "[checkpoint][property]") {
  const std::uint64_t seed = GENERATE(range(std::uint64_t{1}, test::generated(300) + 1));
  test::Random random(seed);
  const auto pair = static_cast<std::size_t>(seed % 25);
  const Rank from = worlds[pair / 5];
  const Rank to = worlds[pair % 5];
  const auto [model, units, sequence] = kind(random.below(3));
  const auto sources = test::every_scheme(units, from);
  const auto targets = test::every_scheme(units, to);
  const auto source = static_cast<std::size_t>(random.below(std::ssize(sources)));
  const auto target = static_cast<std::size_t>(random.below(std::ssize(targets)));
  const bool groups = random.chance(40);
  const auto steps = static_cast<int>(random.below(4));
  INFO("seed " << seed << ": " << model.name << ", scheme " << source << " on " << from
               << " ranks to scheme " << target << " on " << to << ", " << steps << " steps");

  const test::TemporaryFolder folder;
  SimulatedRun saved(model, sources[source], from, sequence);
  for (int step = 0; step < steps; ++step) {
    if (groups) group(saved.engine(), model, step);
    saved.step();
  }
  const test::Contents contents = saved.contents();
  saved.save(folder.path(), steps, random.chance(50));
  require_ok(verify_checkpoint(folder.path()));

  SimulatedRun expected(model, targets[target], to, sequence);
  SimulatedRun loaded(model, targets[target], to, sequence);
  for (int step = 0; step < steps && groups; ++step) {
    group(expected.engine(), model, step);
    group(loaded.engine(), model, step);
  }
  if (random.chance(50)) loaded.step();  // what was there before must not matter
  expected.set(contents);
  const CheckpointInfo info = test::require_value(load_checkpoint(loaded.engine(), folder.path()));
  CHECK(info.step == steps);
  CHECK(info.world_size == from);
  CHECK(info.blobs == CheckpointBlobs{{"sampler", "state"}});
  test::check_same(loaded.contents(), contents, model);
  expected.step();
  loaded.step();
  CHECK(loaded.loss() == expected.loss());
  test::check_same(loaded.contents(), expected.contents(), model);
  if (from == to && source == target) {
    saved.step();
    CHECK(loaded.loss() == saved.loss());
    test::check_same(loaded.contents(), saved.contents(), model);
  }
  saved.finish();
  expected.finish();
  loaded.finish();
}

}  // namespace
}  // namespace tessera
