// SPDX-License-Identifier: Apache-2.0
// Which parameters the optimizer steps, for every scheme; that they are stepped right is shown by
// tests/numerics.
#include <catch2/catch.hpp>

#include "tessera/param_group.h"
#include "tests/base/every_scheme.h"
#include "tests/schemes/replicate/replicas.h"

namespace tessera {
namespace {

using test::check_refused;
using test::require_ok;

TEST_CASE("who is in no group has no optimizer state and keeps its value", "[groups]") {
  const Model model = test::g3();
  test::EveryScheme run(GENERATE(range(0, test::EveryScheme::count)), 2, model);
  INFO(run.name);
  Engine& engine = *run.engine;
  const ParameterId first = model.find_parameter("L1.weight");
  const ParameterId late = model.find_parameter("L3.weight");
  CHECK(engine.param_groups().size() == 1);
  CHECK(engine.param_groups()[0].parameters.size() == model.parameters.size());
  require_ok(engine.set_param_groups({{.parameters = {first}}}));
  const auto before = run.values(late);
  require_ok(run_training_step(engine, model, test::formula_training(model)));
  CHECK(run.values(late) == before);
  const Bytes state = run.held(MemoryClass::optimizer_state);
  CHECK(state > Bytes{0});
  require_ok(engine.add_param_group({.parameters = {late}}));
  require_ok(run_training_step(engine, model, test::formula_training(model)));
  CHECK(run.values(late) != before);
  if (!run.flat) CHECK(run.held(MemoryClass::optimizer_state) > state);
  require_ok(run.runtime->finish());
}

TEST_CASE("groups are refused that nobody could step, naming the parameter", "[groups]") {
  const Model model = test::g3();
  test::EveryScheme run(0, 2, model);
  Engine& engine = *run.engine;
  const ParameterId p = model.find_parameter("L1.weight");
  check_refused(engine.set_param_groups({{.parameters = {p}}, {.parameters = {p}}}),
                "param group 1: L1.weight is in group 0 already");
  check_refused(engine.add_param_group({.parameters = {p}}), "is in group 0 already");
  check_refused(engine.set_param_groups({{.parameters = {ParameterId{99}}}}),
                "param group 0: g3 has no parameter 99, it has 10");
  check_refused(engine.set_param_groups({{.parameters = {p}, .optimizer = -1}}),
                "must be at least 0, found -1");
  check_refused(engine.set_adam(1, {}), "there is no param group 1, there are 1");
  CHECK(engine.param_groups()[0].parameters.size() == model.parameters.size());
  require_ok(run_training_step(engine, model, test::formula_training(model)));
  check_refused(engine.set_param_groups({{.parameters = {p}}}), "has state already");
}

}  // namespace
}  // namespace tessera
