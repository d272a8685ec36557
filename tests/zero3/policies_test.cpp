// SPDX-License-Identifier: Apache-2.0
// Strict beside compatible on the same budget, in the simulator: it stays within, and the compute
// stream stands still no longer. tests/bench/zero3_policies_bench.cpp prints the same for a large
// model.
#include <catch2/catch.hpp>

#include "tessera/sim/cluster.h"
#include "tests/zero3/policy_run.h"

namespace tessera {
namespace {

// Gathers and computation take about the same time, so what is not gathered ahead shows.
test::PolicyRun run(const Model& model, Zero3Options options, std::int32_t accumulation,
                    Offload::Device home) {
  static const auto cluster = sim::load_cluster("dgx-h100", 1);
  REQUIRE(cluster.ok());
  static const auto costs = sim::make_cost_model(*cluster);
  options.param_dtype = DType::bfloat16;
  options.offload_param.device = home;
  return test::run_policy(model, *costs, cluster->ranks(), options,
                          {.sequence_length = 512, .accumulation = accumulation}, 3);
}

TEST_CASE("on every budget strict stays within and stalls no longer than compatible",
          "[zero3][strict][sim]") {
  const auto model = load_model(TESSERA_SOURCE_DIR "/examples/models/llama-3-8b.json");
  REQUIRE(model.ok());
  const std::int64_t mib = std::int64_t{1} << 20;
  const std::int64_t budget = GENERATE(1100, 2048, 8192) * (std::int64_t{1} << 20);
  const std::int32_t accumulation = GENERATE(1, 3);
  const auto home = GENERATE(Offload::Device::none, Offload::Device::cpu);
  INFO(accumulation << " micro-batches, offload " << static_cast<int>(home));
  INFO("budget " << budget / mib << " MiB");
  const test::PolicyRun strict = run(*model, {.live_budget = Bytes{budget}}, accumulation, home);
  INFO(strict.status.message());
  REQUIRE(strict.status.ok());
  CHECK(strict.peak <= Bytes{budget});
  CHECK(strict.peak > Bytes{0});
  // The first step of strict is as good as later ones, if it has nothing to expect behind it.
  if (accumulation == 1) {
    CHECK(strict.steps[0].stalled <= strict.steps[2].stalled + strict.steps[2].time / 100);
  }
  for (std::int64_t bucket : {0L, 50'000'000L, 1'000'000'000L}) {
    const test::PolicyRun other = run(*model,
                                      {.policy = Zero3Policy::compatible,
                                       .prefetch_bucket = Numel{bucket},
                                       .max_live_parameters = Numel{budget / 2}},
                                      accumulation, home);
    REQUIRE(other.status.ok());
    INFO("prefetch bucket " << bucket << ", peak " << other.peak.value / mib << " MiB");
    CHECK(strict.stalled() <= other.stalled());
    if (other.peak > Bytes{budget}) continue;  // no limit at all
    CHECK(strict.steps[2].stalled <= other.steps[2].stalled);
    CHECK(strict.steps[2].exposed <= other.steps[2].exposed);
  }
}

}  // namespace
}  // namespace tessera
