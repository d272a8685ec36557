// SPDX-License-Identifier: Apache-2.0
// Groups of ranks that own parameters together, wherever they lie among all ranks.
#include "tests/schemes/replicate/process_groups.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>

#include "tessera/summon.h"
#include "tests/schemes/sharded_data_parallel/owners.h"

namespace tessera {
namespace {

using test::check_group;
using test::Groups;
using test::groups_of;
using test::mlp;
using test::NumericOwners;
using test::RecordedOwners;
using test::require_ok;

TEST_CASE("owners of any sub-group keep their gradients (fairscale F2)", "[owner][groups]") {
  const Model model = mlp();
  const auto [ranks, members] = GENERATE(table<Rank, Groups>({
      {3, {{1, 2}}},
      {8, {{0, 1, 2, 3}, {4, 5, 6, 7}}},
      {6, {{0, 2, 4}, {1, 3, 5}}},
      {5, {{4, 1}, {0, 3}}},
  }));
  ShardedDataParallelOptions options{.reduce_buffer_size = Numel{GENERATE(0, 1000)}};
  options.groups = groups_of(members);
  NumericOwners world(ranks, model, options);
  constexpr int steps = 3;
  for (int step = 0; step < steps; ++step) {
    require_ok(run_training_step(*world.engine, model, test::formula_training(model)));
  }
  for (const auto& group : members) check_group(*world.engine, model, group, steps);
  // An owner is a place in the group.
  require_ok(test::pass(*world.engine, model));
  for (std::size_t k = 0; k < model.parameters.size(); ++k) {
    const ParameterId id{static_cast<std::int32_t>(k)};
    std::vector<Rank> owners, expected;
    require_ok(world.engine->inspect_gradient(
        id, [&](Rank rank, std::span<const float>) { owners.push_back(rank); }));
    const auto place = static_cast<std::size_t>(world.engine->owner_of(id));
    for (const auto& group : members) expected.push_back(group[place]);
    std::sort(expected.begin(), expected.end());
    CHECK(owners == expected);
  }
  require_ok(world.engine->step({}));
  require_ok(world.runtime->finish());
}

TEST_CASE("consecutive groups are a number, and share every collective", "[owner][groups]") {
  const Model model = mlp();
  RecordedOwners run(4, model, {.sync_models_at_startup = false, .group_size = 2});
  require_ok(run_training_step(*run.engine, model, {}));
  CHECK(run.collectives() == std::vector<std::string>{"reduce 72 to 1", "reduce 58 to 0",
                                                      "broadcast 58 from 0",
                                                      "broadcast 72 from 1"});
}

TEST_CASE("a norm is that of a group, or of whom set_norm_group names", "[owner][groups][clip]") {
  const Model model = mlp();
  const double type = GENERATE(1.0, 2.0, static_cast<double>(INFINITY));
  NumericOwners world(4, model, {.group_size = 2});
  std::map<Rank, float> own, all;
  require_ok(test::pass(*world.engine, model));
  require_ok(world.engine->clip_grad_norm(1e6F, type, [&](Rank r, float n) { own[r] = n; }));
  require_ok(world.engine->set_norm_group(groups_of({{0, 1, 2, 3}})));
  require_ok(world.engine->clip_grad_norm(1e6F, type, [&](Rank r, float n) { all[r] = n; }));
  CHECK(own[0] == own[1]);
  CHECK(own[2] == own[3]);
  CHECK(own[2] > own[0]);  // higher ranks have larger gradients
  const double a = own[0], b = own[2];
  double together = std::max(a, b);
  if (type == 1) together = a + b;
  if (type == 2) together = std::sqrt(a * a + b * b);
  for (const auto& [rank, norm] : all) CHECK(norm == Approx(together).epsilon(1e-5));
  test::check_refused(world.engine->set_norm_group(groups_of({{0, 1}})),
                      "ranks 0-3 train, but the groups are of ranks 0-1");
}

TEST_CASE("a norm counts whom set_norm_filter names, and scales all", "[owner][groups][clip]") {
  const Model model = mlp();
  const ParameterId only = model.find_parameter("l1.weight");
  const auto gradients = [&model](ShardedDataParallel& engine) {
    std::vector<std::vector<float>> all;
    for (std::size_t p = 0; p < model.parameters.size(); ++p) {
      require_ok(engine.inspect_gradient(
          ParameterId{static_cast<std::int32_t>(p)},
          [&](Rank, std::span<const float> v) { all.emplace_back(v.begin(), v.end()); }));
    }
    return all;
  };
  NumericOwners world(2, model);
  require_ok(test::pass(*world.engine, model));
  const auto before = gradients(*world.engine);
  float whole = 0, part = 0;
  require_ok(world.engine->clip_grad_norm(1e6F, 2, [&](Rank, float n) { whole = n; }));
  world.engine->set_norm_filter([only](ParameterId id) { return id == only; });
  require_ok(world.engine->clip_grad_norm(1, 2, [&](Rank, float n) { part = n; }));
  CHECK(part < whole);
  double squares = 0;
  for (float g : before[static_cast<std::size_t>(only.value)]) {
    squares += static_cast<double>(g) * static_cast<double>(g);
  }
  CHECK(part == Approx(std::sqrt(squares)).epsilon(1e-5));
  const auto after = gradients(*world.engine);
  REQUIRE(after.size() == before.size());
  for (std::size_t p = 0; p < before.size(); ++p) {
    INFO(model.parameters[p].name);
    CHECK(after[p][0] == Approx(before[p][0] / part).epsilon(1e-4));
  }
  world.engine->set_norm_filter({});
  float again = 0;
  require_ok(world.engine->clip_grad_norm(1e6F, 2, [&](Rank, float n) { again = n; }));
  CHECK(again == Approx(whole / part).epsilon(1e-4));
}

TEST_CASE("each group's first rank writes back for its group", "[owner][groups][summon]") {
  const Model model = mlp();
  NumericOwners world(4, model, {.group_size = 2});
  auto full = summon_full_params(*world.engine, {.rank0_only = true});
  require_ok(full.status());
  const ParameterId id = model.find_parameter("l1.weight");
  require_ok((*full)->modify(id, [](Rank rank, std::span<float> values) {
    std::fill(values.begin(), values.end(), static_cast<float>(rank));
  }));
  require_ok((*full)->commit());
  require_ok((*full)->close());
  require_ok(world.engine->inspect_shards(id, [](Rank rank, Numel, std::span<const float> v) {
    CHECK(v[0] == (rank < 2 ? 0.0F : 2.0F));
  }));
}

TEST_CASE("groups that cannot share owners are refused", "[owner][groups][errors]") {
  const Model model = mlp();
  Recording recording;
  const auto runtime = make_recording_runtime(4, recording);
  auto refused = [&](const ShardedDataParallelOptions& options, const std::string& part) {
    test::check_refused(sharded_data_parallel(*runtime, model, options).status(), part);
  };
  refused({.groups = groups_of({{0, 1}, {2}})}, "group 0 has 2 ranks and group 1 has 1");
  refused({.groups = groups_of({{3, 4}})}, "process groups name ranks 4, there are 0-3 only");
  refused({.group_size = 3}, "3");
}

}  // namespace
}  // namespace tessera
