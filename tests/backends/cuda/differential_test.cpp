// SPDX-License-Identifier: Apache-2.0
// The same engine and model on fake GPUs and in the simulator: the same numbers, the same memory.
#include "tests/backends/cuda/cuda_ranks.h"
#include "tests/backends/cuda/slow_drive.h"
#include "tests/backends/host/as_simulated.h"
#include "tests/backends/host/offloaded_runs.h"
#include "tests/swap/scratch_folder.h"

namespace tessera {
namespace {

void check_as_simulated(const std::string& name, const Scheme& scheme, Rank ranks,
                        std::uint64_t seed, const CudaOptions& options = {}) {
  INFO("seed " << seed);
  test::check_as_simulated(name, scheme, ranks, [&](const test::RankProgram& program) {
    test::require_clean(test::run_on_gpus({.ranks = ranks, .seed = seed}, program, options));
  });
}

TEST_CASE("GPUs train as the simulator does, in its order, to the bit and to the byte", "[cuda]") {
  const Rank ranks = GENERATE(1, 2, 4);
  const std::uint64_t seed = GENERATE(0, 1);
  for (const auto& [name, scheme] : test::schemes()) {
    if (!test::has_groups_for(name, ranks)) continue;
    check_as_simulated(name, scheme, ranks, seed);
  }
}

TEST_CASE("GPUs offload to the host and to files as the simulator does", "[cuda][offload]") {
  const test::ScratchFolder folder;
  const Rank ranks = GENERATE(1, 2, 3);
  const std::uint64_t seed = GENERATE(0, 1, 2, 3);
  test::DriveHabits habits{.looks = static_cast<int>(seed * seed)};
  for (const auto& [name, scheme] : test::offloaded_schemes(folder.path())) {
    CudaOptions options{.swap_io = [&habits](const MoveBlock& move) {
      return std::make_unique<test::SlowDrive>(habits, move);
    }};
    if (const auto* zero3 = std::get_if<Zero3Options>(&scheme)) options.aio = zero3->aio;
    check_as_simulated(name, scheme, ranks, seed, options);
  }
  CHECK(habits.moved > 0);
}

// A failure prints the seed that repeats it.
TEST_CASE("no order in which devices may run changes what comes out", "[cuda]") {
  const auto schemes = test::schemes();
  for (std::uint64_t seed = 1; seed <= test::generated(200); ++seed) {
    const auto& [name, scheme] = schemes[seed % schemes.size()];
    check_as_simulated(name, scheme, seed % 3 == 0 ? 4 : 2, seed);
  }
}

}  // namespace
}  // namespace tessera
