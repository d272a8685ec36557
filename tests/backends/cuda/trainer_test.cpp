// SPDX-License-Identifier: Apache-2.0
// A trainer on fake GPUs and in the simulator: float16, whose steps depend on what gradients are.
#include <algorithm>

#include "tessera/sim/lockstep_runtime.h"
#include "tests/backends/cuda/cuda_ranks.h"
#include "tests/sim/test_costs.h"
#include "tests/training/loop/training_scene.h"

namespace tessera {
namespace {

using test::Said;

constexpr std::int64_t steps = 12;
constexpr Rank ranks = 2;

Said simulated(const Scheme& scheme, Bytes& peak) {
  const test::TestCosts costs;
  auto simulator = sim::LockstepRuntime::create(
      {.world_size = ranks, .cost = &costs, .processor = Processor::gpu, .numerics = true});
  REQUIRE(simulator.ok());
  Said said;
  const Status status =
      test::train(**simulator, test::small_gpt(), test::small_options(scheme, 1, steps), steps,
                  said, [&] { return (*simulator)->finish(); });
  INFO(status.message());
  REQUIRE(status.ok());
  peak = (*simulator)->peak_reserved();
  return said;
}

TEST_CASE("GPUs skip what overflows in float16 as simulated, to the bit and to the byte",
          "[cuda][trainer]") {
  const DType half = DType::float16;
  const std::vector<Scheme> schemes = {
      FullyShardOptions{.param_dtype = half}, Zero12Options{.stage = 2, .param_dtype = half},
      Zero3Options{.offload_optimizer = {.device = Offload::Device::cpu}, .param_dtype = half}};
  for (const Scheme& scheme : schemes) {
    for (const std::uint64_t seed : {1, 2, 3}) {
      INFO(name_of(scheme) << ", seed " << seed);
      Bytes peak{};
      const Said expected = simulated(scheme, peak);
      CHECK(expected.skipped.front());
      CHECK(std::count(expected.skipped.begin(), expected.skipped.end(), false) > 3);
      std::vector<Said> said(ranks);
      std::vector<Bytes> peaks(ranks);
      const test::StandInOptions world{
          .ranks = ranks, .device_bytes = std::size_t{192} << 20, .seed = seed};
      const auto program = [&](ProcessRuntime& runtime, Rank rank) {
        const auto own = static_cast<std::size_t>(rank);
        const Status trained =
            test::train(runtime, test::small_gpt(), test::small_options(scheme, 1, steps), steps,
                        said[own], [&] { return runtime.finish(); });
        peaks[own] = runtime.peak_reserved();
        return trained;
      };
      test::require_clean(test::run_on_gpus(world, program, {.pinned_memory = Bytes{4 << 20}}));
      for (std::size_t rank = 0; rank < said.size(); ++rank) {
        CHECK(said[rank] == expected);
        CHECK(peaks[rank] == peak);
      }
    }
  }
}

}  // namespace
}  // namespace tessera
