// SPDX-License-Identifier: Apache-2.0
// Groups of ranks that train a model each, wherever they lie among all ranks.
#include "tests/schemes/replicate/process_groups.h"

#include <limits>

#include "tessera/grad_scaler.h"
#include "tessera/join.h"
#include "tessera/summon.h"

namespace tessera {
namespace {

using test::check_group;
using test::check_refused;
using test::g3;
using test::Groups;
using test::groups_of;
using test::Replicas;
using test::require_ok;

TEST_CASE("replicas of any sub-group train on their own", "[replicate][groups]") {
  const Model model = g3();
  const auto [ranks, members] = GENERATE(table<Rank, Groups>({
      {3, {{1, 2}}},
      {8, {{0, 1, 2, 3}, {4, 5, 6, 7}}},
      {6, {{0, 2, 4}, {1, 3, 5}}},
      {5, {{4, 1}, {0, 3}}},
  }));
  ReplicateOptions options{.bucket_cap = Bytes{GENERATE(1, 1000)}};
  options.find_unused_parameters = GENERATE(false, true);
  options.groups = groups_of(members);
  Replicas world(ranks, model, options);
  require_ok(world.engine->initialise(test::initial_value));
  constexpr int steps = 3;
  for (int step = 0; step < steps; ++step) {
    require_ok(run_training_step(*world.engine, model, test::formula_training(model)));
  }
  for (const auto& group : members) check_group(*world.engine, model, group, steps);
  require_ok(world.runtime->finish());
}

TEST_CASE("consecutive groups are a number", "[replicate][groups]") {
  const Model model = g3();
  Replicas world(6, model, {.group_size = 3});
  require_ok(world.engine->initialise(test::initial_value));
  require_ok(run_training_step(*world.engine, model, test::formula_training(model)));
  check_group(*world.engine, model, {0, 1, 2}, 1);
  check_group(*world.engine, model, {3, 4, 5}, 1);
}

// Whoever asks for a number gets it of all ranks, those that do nothing among them.
TEST_CASE("an engine of a part of the ranks skips steps, with a loss scale and without",
          "[replicate][groups][scaler]") {
  const Model model = g3();
  const bool scales = GENERATE(true, false);
  const float bad = GENERATE(std::numeric_limits<float>::infinity(), 1.0F);
  Replicas world(4, model, {.groups = groups_of({{1, 3}})});
  require_ok(world.engine->initialise(test::initial_value));
  TrainingOptions training = test::formula_training(model);
  int skipped = 0;
  std::unique_ptr<GradScaler> scaler;
  if (scales) {
    scaler = test::require_value(grad_scaler(*world.engine, {}));
    training.scaler = scaler.get();
  } else {
    training.max_grad_norm = 1e6F;
    training.skipped = [&] { ++skipped; };
  }
  training.body = [formula = training.body, bad](ModuleId module, ModuleWork::Pass pass,
                                                 std::int32_t micro_batch) {
    auto body = formula(module, pass, micro_batch);
    if (!body || module != ModuleId{2}) return body;
    return std::function<void(const BodyContext&)>([=](const BodyContext& context) {
      body(context);
      if (context.rank() == 3) context.write_as<float>(0)[1] = bad;
    });
  };
  require_ok(run_training_step(*world.engine, model, training));
  CHECK((scales ? scaler->skipped() : skipped == 1) == (bad > 1));
  CHECK((scales ? scaler->scale() : 1) == (scales ? bad > 1 ? 32768 : 65536 : 1));
  require_ok(world.runtime->finish());
}

TEST_CASE("the first rank of each group commits for its group", "[replicate][groups][summon]") {
  const Model model = g3();
  Replicas world(4, model, {.group_size = 2});
  require_ok(world.engine->initialise(test::initial_value));
  const ParameterId first{0};
  auto full = test::require_value(summon_full_params(*world.engine, {.rank0_only = true}));
  require_ok(full->modify(first, [](Rank rank, std::span<float> values) {
    for (float& v : values) v = 10 + static_cast<float>(rank);
  }));
  require_ok(full->commit());
  require_ok(full->close());
  std::vector<float> found(4);
  require_ok(world.engine->inspect_shards(first, [&](Rank rank, Numel, std::span<const float> v) {
    found[static_cast<std::size_t>(rank)] = v[0];
  }));
  CHECK(found == std::vector<float>{10, 10, 12, 12});
}

TEST_CASE("groups that make no sense are refused", "[replicate][groups][errors]") {
  const Model model = g3();
  test::TestCosts costs;
  const auto refused = [&](const ReplicateOptions& options, const char* part) {
    const auto runtime = test::require_value(
        sim::LockstepRuntime::create({.world_size = 4, .cost = &costs, .numerics = true}));
    check_refused(replicate(*runtime, model, options).status(), part);
  };
  ReplicateOptions options;
  options.groups = groups_of({{0, 1, 2}, {3}});
  refused(options, "group 0 has 3 ranks and group 1 has 1: make the groups equally large");
  options.groups = groups_of({{3, 4}});
  refused(options, "name ranks 4, there are 0-3 only");
  refused({.group_size = 3}, "3");
  Replicas world(4, model, {.group_size = 2});
  check_refused(Join::enter(*world.engine, {}).status(), "Join is for one group of all ranks");
}

}  // namespace
}  // namespace tessera
