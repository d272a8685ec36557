// SPDX-License-Identifier: Apache-2.0
// Process groups against ZeRO-3 of DeepSpeed 0.19.8 with an mpu, each rank's values, as recorded by
// tests/golden/deepspeed_0_19/groups.py.
#include "tests/schemes/recorded_groups.h"

#include "tessera/zero3.h"

namespace tessera {
namespace {

TEST_CASE("process groups train what data-parallel groups of DeepSpeed 0.19.8 did",
          "[zero3][golden]") {
  const auto policy = GENERATE(Zero3Policy::strict, Zero3Policy::compatible_0_19);
  for (const test::RunJson& run : test::recorded_groups("zero3", "deepspeed_0_19")) {
    INFO("seed " << run["seed"]);
    Zero3Options options{.policy = policy};
    options.persistence_threshold = Numel{run["options"]["persistence_threshold"].get<int>()};
    options.reduce_bucket = Numel{run["options"]["reduce_bucket"].get<int>()};
    options.groups = test::groups_of(run);
    test::RecordedWorld world(run);
    const auto engine = test::require_value(zero3(*world.runtime, world.model, options));
    world.train(run, *engine);
    test::check_values(*engine, world.model, run["found"]);
  }
}

}  // namespace
}  // namespace tessera
