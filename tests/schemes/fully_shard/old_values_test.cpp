// SPDX-License-Identifier: Apache-2.0
// Values that were gathered before they changed are not used after it.
#include <catch2/catch.hpp>

#include "tessera/recording.h"
#include "tessera/scheme.h"
#include "tessera/sim/lockstep_runtime.h"
#include "tests/base/models.h"
#include "tests/sim/test_costs.h"

namespace tessera {
namespace {

int gathers(const Recording& recording) {
  int n = 0;
  for (const Record& r : recording.records) {
    n += r.kind == Record::Kind::op && kind_of(r.op) == OpKind::all_gather &&
                 r.cause.phase == Phase::forward
             ? 1
             : 0;
  }
  return n;
}

TEST_CASE("what was gathered by hand is gathered again after its values changed", "[shard]") {
  const Model model = test::g3();
  const test::TestCosts costs;
  auto runtime = sim::LockstepRuntime::create({.world_size = 2, .cost = &costs, .numerics = true});
  REQUIRE(runtime.ok());
  auto engine = fully_shard(**runtime, model, {.units = {"L1"}});
  REQUIRE(engine.ok());
  FullyShard& e = **engine;
  const ModuleId unit = model.find_module("L1");
  const auto write = [&](float value) {
    REQUIRE(e.initialise([=](ParameterId, Numel) { return value; }).ok());
  };
  write(1);
  REQUIRE(e.unshard(unit).ok());
  write(2);
  float seen = 0;
  REQUIRE(e.begin_forward().ok());
  REQUIRE(e.pre_forward(unit).ok());
  REQUIRE(e.compute({.module = unit,
                     .body =
                         [&](const BodyContext& context) {
                           if (context.rank() == 0) seen = context.read_as<float>(0)[0];
                         }})
              .ok());
  CHECK(seen == 2);
}

TEST_CASE("what was gathered by hand is gathered again after a step", "[shard]") {
  const Model model = test::g3();
  Recording recording;
  const auto runtime = make_recording_runtime(2, recording);
  auto engine = fully_shard(*runtime, model, {.units = {"L1"}});
  REQUIRE(engine.ok());
  const ModuleId unit = model.find_module("L1");
  REQUIRE((*engine)->unshard(unit).ok());
  REQUIRE((*engine)->step({}).ok());
  REQUIRE((*engine)->begin_forward().ok());
  REQUIRE((*engine)->pre_forward(unit).ok());
  CHECK(gathers(recording) == 1);
}

TEST_CASE("what a micro-batch left gathered is gathered again after its values changed",
          "[shard]") {
  const Model model = test::g3();
  Recording recording;
  const auto runtime = make_recording_runtime(2, recording);
  auto engine =
      fsdp1(*runtime, model, {.units = {"L1"}, .strategy = ShardingStrategy::shard_grad_op});
  REQUIRE(engine.ok());
  Engine& e = **engine;
  const ModuleId unit = model.find_module("L1");
  const auto gather_all = [&] {
    REQUIRE(e.begin_forward().ok());
    REQUIRE(e.pre_forward(ModuleId{0}).ok());
    REQUIRE(e.pre_forward(unit).ok());
    for (const ModuleId m : {unit, model.find_module("head")}) {
      REQUIRE(e.compute({.module = m}).ok());
    }
    return gathers(recording);
  };
  e.set_requires_gradient_sync(false);
  CHECK(gather_all() == 2);
  REQUIRE(e.begin_backward().ok());
  REQUIRE(e.end_backward().ok());
  REQUIRE(e.initialise([](ParameterId, Numel) { return 2.0F; }).ok());
  CHECK(gather_all() == 4);
}

}  // namespace
}  // namespace tessera
