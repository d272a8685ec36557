// SPDX-License-Identifier: Apache-2.0
// Process groups against DDP of torch 2.15, each rank's values.
#include "tests/schemes/recorded_groups.h"

#include "tessera/replicate.h"

namespace tessera {
namespace {

TEST_CASE("process groups train what those of DDP in torch 2.15 did", "[replicate][golden]") {
  for (const test::RunJson& run : test::recorded_groups("ddp")) {
    INFO("seed " << run["seed"]);
    const test::RunJson& given = run["options"];
    ReplicateOptions options{.bucket_cap = Bytes{given["bucket_cap"].get<std::int64_t>()},
                             .find_unused_parameters = given["find_unused_parameters"],
                             .gradient_as_bucket_view = given["gradient_as_bucket_view"]};
    options.groups = test::groups_of(run);
    test::RecordedWorld world(run);
    const auto engine = test::require_value(replicate(*world.runtime, world.model, options));
    world.train(run, *engine);
    test::check_values(*engine, world.model, run["found"]);
  }
}

}  // namespace
}  // namespace tessera
