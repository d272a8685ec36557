// SPDX-License-Identifier: Apache-2.0
// Param groups, several optimizers, and parameters that join or freeze on the way.
#include <catch2/catch.hpp>

#include "tests/random.h"
#include "tests/schemes/sharded_data_parallel/owners.h"

namespace tessera {
namespace {

using test::mlp;
using test::NumericOwners;
using test::RecordedOwners;
using test::require_ok;
using Lines = std::vector<std::string>;

std::vector<ParameterId> named(const Model& model, const std::vector<const char*>& names) {
  std::vector<ParameterId> ids;
  for (const char* name : names) ids.push_back(model.find_parameter(name));
  return ids;
}

std::vector<Index> owners(const ShardedDataParallel& engine, const Model& model) {
  std::vector<Index> all;
  for (std::size_t k = 0; k < model.parameters.size(); ++k) {
    all.push_back(engine.owner_of({static_cast<std::int32_t>(k)}));
  }
  return all;
}

TEST_CASE("owners are given away in the order of groups", "[owner][optimizers]") {
  const Model model = mlp();
  RecordedOwners run(2, model);
  CHECK(owners(*run.engine, model) == std::vector<Index>{0, 1, 1, 0, 0, 0});
  const std::int32_t version = run.engine->owners_version();
  require_ok(
      run.engine->set_param_groups({{.parameters = named(model, {"l1.weight"})},
                                    {},
                                    {.parameters = named(model, {"l0.bias", "l0.weight"})}}));
  CHECK(owners(*run.engine, model) == std::vector<Index>{1, 1, 0, -1, -1, -1});
  CHECK(run.engine->owners_version() > version);
}

TEST_CASE("who has no owner is not reduced, broadcast or kept", "[owner][optimizers]") {
  const Model model = mlp();
  RecordedOwners run(2, model);
  require_ok(
      run.engine->set_param_groups({{.parameters = named(model, {"l1.weight", "l2.bias"})}}));
  run.collectives();
  require_ok(run_training_step(*run.engine, model, {}));
  CHECK(run.collectives() ==
        Lines{"reduce 2 to 1", "reduce 64 to 0", "broadcast 64 from 0", "broadcast 2 from 1"});
}

TEST_CASE("each optimizer is given away by itself", "[owner][optimizers]") {
  const Model model = mlp();
  RecordedOwners run(2, model);
  require_ok(run.engine->set_param_groups(
      {{.parameters = named(model, {"l0.weight", "l0.bias"}), .optimizer = 0},
       {.parameters = named(model, {"l1.weight", "l1.bias"}), .optimizer = 1},
       {.parameters = named(model, {"l2.weight"}), .optimizer = 0}}));
  CHECK(owners(*run.engine, model) == std::vector<Index>{0, 1, 0, 1, 1, -1});
  run.collectives();
  require_ok(test::pass(*run.engine, model));
  CHECK(run.collectives() ==
        Lines{"reduce 8 to 1", "reduce 64 to 0", "reduce 24 to 1", "reduce 32 to 0"});
  require_ok(run.engine->step_optimizer(1, {}));
  CHECK(run.collectives() == Lines{"broadcast 64 from 0", "broadcast 8 from 1"});
  require_ok(run.engine->step_optimizer(0, {}));
  CHECK(run.collectives() == Lines{"broadcast 32 from 0", "broadcast 24 from 1"});
  test::check_refused(run.engine->step_optimizer(2, {}), "no param group has optimizer 2");
}

TEST_CASE("what one optimizer steps leaves the other's gradients as they are", "[owner]") {
  const Model model = mlp();
  NumericOwners world(2, model);
  const auto first = named(model, {"l0.weight", "l0.bias", "l1.weight"});
  const auto second = named(model, {"l1.bias", "l2.weight", "l2.bias"});
  require_ok(world.engine->set_param_groups(
      {{.parameters = first, .optimizer = 0}, {.parameters = second, .optimizer = 1}}));
  const TrainingOptions training = test::formula_training(model);
  test::FormulaTraining reference(model);
  require_ok(test::pass(*world.engine, model));
  require_ok(world.engine->step_optimizer(1, training.adam));
  require_ok(world.engine->step_optimizer(0, training.adam));
  reference.step(RankSet::all(2), 2, 2);
  reference.check(*world.engine, 2);
  require_ok(run_training_step(*world.engine, model, training));
  reference.step(RankSet::all(2), 2, 2);
  reference.check(*world.engine, 2);
  require_ok(world.runtime->finish());
}

// Values and moments of all that was there before must survive: every parameter is compared with
// one that was trained alone, with its own number of steps.
TEST_CASE("freezing and joining later lose nobody's state (fairscale F5)", "[owner][optimizers]") {
  Model model = mlp();
  NumericOwners world(2, model, {.reduce_buffer_size = Numel{GENERATE(0, 1000)}});
  require_ok(world.engine->set_param_groups(
      {{.parameters = named(model, {"l0.weight", "l0.bias", "l1.weight", "l1.bias"})}}));
  test::FormulaTraining reference(model);
  auto step = [&] {
    require_ok(run_training_step(*world.engine, model, test::partly_frozen_training(model)));
    const auto before = reference.elements;
    reference.step(RankSet::all(2), 2, 2);
    for (auto& [id, elements] : reference.elements) {
      const bool stepped = model.parameter({id}).requires_grad && world.engine->owner_of({id}) >= 0;
      if (!stepped) elements = before.at(id);
    }
    reference.check(*world.engine, 2);
  };
  step();
  const std::vector<Index> before = owners(*world.engine, model);
  const auto heavy = model.find_parameter("l1.weight").index();
  model.parameters[heavy].requires_grad = false;
  step();
  require_ok(world.engine->add_param_group({.parameters = named(model, {"l2.weight", "l2.bias"})}));
  std::vector<Index> after = owners(*world.engine, model);
  CHECK(after[4] >= 0);
  after[4] = after[5] = -1;
  CHECK(after == before);
  step();
  model.parameters[heavy].requires_grad = true;
  step();
  step();
  require_ok(world.runtime->finish());
}

TEST_CASE("groups do not change while gradients wait", "[owner][optimizers][errors]") {
  const Model model = mlp();
  NumericOwners world(2, model);
  ShardedDataParallel& engine = *world.engine;
  require_ok(engine.set_param_groups({{.parameters = named(model, {"l1.weight"})}}));
  const ParamGroup late{.parameters = named(model, {"l0.bias"})};
  {
    const NoSync local(engine);
    require_ok(test::pass(engine, model));
    test::check_refused(engine.add_param_group(late), "were never reduced");
  }
  require_ok(engine.reduce());
  test::check_refused(engine.add_param_group(late), "l1.weight has a gradient that waits");
  CHECK(engine.param_groups().size() == 1);
  require_ok(engine.step({}));
  require_ok(engine.add_param_group(late));
  require_ok(run_training_step(engine, model, test::formula_training(model)));
  require_ok(engine.zero_grad(false));
  require_ok(engine.add_param_group({.parameters = named(model, {"l0.weight"})}));
  require_ok(run_training_step(engine, model, test::formula_training(model)));
  require_ok(world.runtime->finish());
}

}  // namespace
}  // namespace tessera
