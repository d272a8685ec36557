// SPDX-License-Identifier: Apache-2.0
#include "cli/report/graphs_text.h"

#include <catch2/catch.hpp>

namespace tessera::cli {

TEST_CASE("a run says how many computations were graphs, and why others were not", "[cli]") {
  CHECK(graphs_text({.launched = 312, .first = 20, .moved = 8}) ==
        "312 of 340 computations were launched as CUDA graphs; 28 ran their bodies: 20 for the "
        "first time, 8 on other memory");
  CHECK(graphs_text({.launched = 12'000, .first = 1, .unrepeated = 1'500}) ==
        "12,000 of 13,501 computations were launched as CUDA graphs; 1,501 ran their bodies: 1 for "
        "the first time, 1,500 as they repeat nothing");
}

}  // namespace tessera::cli
