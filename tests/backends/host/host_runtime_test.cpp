// SPDX-License-Identifier: Apache-2.0
// The same engine and model on ranks that are threads and in the simulator: the same numbers, the
// same memory.
#include "tests/backends/host/as_simulated.h"
#include "tests/backends/host/thread_ranks.h"

namespace tessera {
namespace {

TEST_CASE("ranks in threads train as the simulator does, to the bit and to the byte", "[host]") {
  const Rank ranks = GENERATE(1, 2, 4);
  for (const auto& [name, scheme] : test::schemes()) {
    if (!test::has_groups_for(name, ranks)) continue;
    test::check_as_simulated(name, scheme, ranks, test::threads_of(ranks));
  }
}

}  // namespace
}  // namespace tessera
