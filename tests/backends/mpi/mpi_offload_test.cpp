// SPDX-License-Identifier: Apache-2.0
// What lives in files, on processes with files of their own and in the simulator.
#include "tests/backends/host/offloaded_runs.h"
#include "tests/backends/mpi/own_rank.h"
#include "tests/swap/scratch_folder.h"

namespace tessera {
namespace {

TEST_CASE("processes offload to files as the simulator does, to the bit and to the byte",
          "[mpi][offload]") {
  const test::ScratchFolder folder;
  for (const auto& [name, scheme] : test::offloaded_schemes(folder.path())) {
    test::check_own_rank_as_simulated(name, scheme);
  }
}

}  // namespace
}  // namespace tessera
