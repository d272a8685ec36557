// SPDX-License-Identifier: Apache-2.0
// Divide factors beside meshes of units against FSDP2 of torch 2.15, each rank's values.
#include "tessera/fully_shard.h"
#include "tests/schemes/recorded_groups.h"

namespace tessera {
namespace {

TEST_CASE("a divide factor acts on meshes of units as in FSDP2 of torch 2.15", "[shard][golden]") {
  for (const test::RunJson& run : test::recorded_groups("fully_shard")) {
    INFO("seed " << run["seed"] << run["plan"] << run["options"] << run["passes"]);
    test::RecordedWorld world(run);
    FullyShardOptions options{
        .plan = test::require_value(read_wrap_plan(run["plan"].dump(), "plan", world.model))};
    const test::RunJson& factor = run["options"]["factor"];
    if (!factor.is_null()) options.gradient_divide_factor = factor.get<float>();
    const auto engine = test::require_value(fully_shard(*world.runtime, world.model, options));
    world.train(run, *engine);
    test::check_values(*engine, world.model, run["found"]);
  }
}

}  // namespace
}  // namespace tessera
