// SPDX-License-Identifier: Apache-2.0
// The same engine and model on fake GPUs and in the simulator: the same numbers, the same memory.
#include "tests/cuda/cuda_ranks.h"
#include "tests/host/training_run.h"

namespace tessera {
namespace {

using test::Trained;

void check_as_simulated(const std::string& name, const Scheme& scheme, Rank ranks,
                        std::uint64_t seed) {
  INFO(name << " on " << ranks << " ranks, seed " << seed);
  const test::Run run = test::training_run(scheme, ranks);
  Bytes peak{};
  const std::vector<Trained> simulated = test::simulated(run, peak);
  std::vector<Trained> real(static_cast<std::size_t>(ranks));
  std::vector<Bytes> peaks(static_cast<std::size_t>(ranks));
  test::require_clean(
      test::run_on_gpus({.ranks = ranks, .seed = seed}, [&](HostRuntime& runtime, Rank rank) {
        const auto own = static_cast<std::size_t>(rank);
        TESSERA_TRY(test::train(
            runtime.seam(), run, [&](Rank) -> Trained& { return real[own]; },
            [&] { return runtime.finish(); }));
        peaks[own] = runtime.peak_reserved();
        return Status{};
      }));
  for (std::size_t r = 0; r < real.size(); ++r) {
    INFO("rank " << r);
    CHECK(real[r].shards == simulated[r].shards);
    CHECK(real[r].losses == simulated[r].losses);
    CHECK(peaks[r] == peak);
  }
}

TEST_CASE("GPUs train as the simulator does, to the bit and to the byte", "[cuda]") {
  const Rank ranks = GENERATE(1, 2, 4);
  const std::uint64_t seed = GENERATE(0, 1);
  for (const auto& [name, scheme] : test::schemes()) {
    if (ranks == 1 && name.find("groups of 2") != std::string::npos) continue;
    check_as_simulated(name, scheme, ranks, seed);
  }
}

// TESSERA_CUDA_SEEDS at configuration: how many; a failure prints the seed that repeats it.
TEST_CASE("no order in which devices may run changes what comes out", "[cuda]") {
  const auto schemes = test::schemes();
  for (std::uint64_t seed = 1; seed <= TESSERA_CUDA_SEEDS; ++seed) {
    const auto& [name, scheme] = schemes[seed % schemes.size()];
    check_as_simulated(name, scheme, seed % 3 == 0 ? 4 : 2, seed);
  }
}

}  // namespace
}  // namespace tessera
