// SPDX-License-Identifier: Apache-2.0
// The same engine and model on ranks that are threads and in the simulator: the same numbers, the
// same memory.
#include "tests/host/thread_ranks.h"
#include "tests/host/training_run.h"

namespace tessera {
namespace {

using test::Trained;

TEST_CASE("ranks in threads train as the simulator does, to the bit and to the byte", "[host]") {
  const Rank ranks = GENERATE(1, 2, 4);
  for (const auto& [name, scheme] : test::schemes()) {
    if (ranks == 1 && name.find("groups of 2") != std::string::npos) continue;
    INFO(name << " on " << ranks << " ranks");
    const test::Run run = test::training_run(scheme, ranks);
    Bytes peak{};
    const std::vector<Trained> simulated = test::simulated(run, peak);
    std::vector<Trained> real(static_cast<std::size_t>(ranks));
    std::vector<Bytes> peaks(static_cast<std::size_t>(ranks));
    test::require_all_ok(test::on_threads(ranks, {}, [&](HostRuntime& runtime, Rank rank) {
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
}

}  // namespace
}  // namespace tessera
