// SPDX-License-Identifier: Apache-2.0
// Runs alone and as several processes, each with files of its own.
#include <catch2/catch.hpp>

#include "tessera/host_runtime.h"
#include "tests/host/offloaded_runs.h"
#include "tests/swap/scratch_folder.h"

namespace tessera {
namespace {

using test::Trained;

TEST_CASE("processes offload to files as the simulator does, to the bit and to the byte",
          "[mpi][offload]") {
  const test::ScratchFolder folder;
  for (const auto& [name, scheme] : test::offloaded_schemes(folder.path())) {
    auto runtime = make_mpi_runtime({}, TESSERA_BINARY_DIR);
    INFO(runtime.status().message());
    REQUIRE(runtime.ok());
    const Rank ranks = (*runtime)->seam().world().count();
    const auto own = static_cast<std::size_t>((*runtime)->seam().carried().first());
    INFO(name << " on rank " << own << " of " << ranks);
    const test::Run run = test::training_run(scheme, ranks);
    Trained real;
    const Status trained =
        test::train((*runtime)->seam(), run, [&](Rank) -> Trained& { return real; },
                    [&] { return (*runtime)->finish(); });
    INFO(trained.message());
    REQUIRE(trained.ok());
    Bytes peak{};
    const std::vector<Trained> simulated = test::simulated(run, peak);
    CHECK(real.shards == simulated[own].shards);
    CHECK(real.losses == simulated[own].losses);
    CHECK((*runtime)->peak_reserved() == peak);
  }
}

}  // namespace
}  // namespace tessera
