// SPDX-License-Identifier: Apache-2.0
// Runs alone and as several processes: `mpirun -n 4 test_mpi`. Each process checks its own rank.
#include <catch2/catch.hpp>

#include "tessera/host_runtime.h"
#include "tests/host/training_run.h"

namespace tessera {
namespace {

using test::Trained;

TEST_CASE("processes train as the simulator does, to the bit and to the byte", "[mpi]") {
  for (const auto& [name, scheme] : test::schemes()) {
    auto runtime = make_mpi_runtime({}, TESSERA_BINARY_DIR);
    INFO(runtime.status().message());
    REQUIRE(runtime.ok());
    const Rank ranks = (*runtime)->seam().world().count();
    const auto own = static_cast<std::size_t>((*runtime)->seam().carried().first());
    if (ranks % 2 != 0 && name.find("groups of 2") != std::string::npos) {
      CHECK((*runtime)->finish().ok());
      continue;
    }
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

TEST_CASE("without the module the error names the file", "[mpi]") {
  const auto runtime = make_mpi_runtime({}, "/nowhere");
  REQUIRE_FALSE(runtime.ok());
  CHECK(runtime.status().code() == Code::not_supported);
  CHECK(runtime.status().message().find("libtessera_mpi.so is not there") == 0);
}

}  // namespace
}  // namespace tessera
