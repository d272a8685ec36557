// SPDX-License-Identifier: Apache-2.0
// The same engine and model on processes and in the simulator: the same numbers, the same memory.
#include "tests/backends/mpi/own_rank.h"

namespace tessera {
namespace {

TEST_CASE("processes train as the simulator does, to the bit and to the byte", "[mpi]") {
  for (const auto& [name, scheme] : test::schemes())
    test::check_own_rank_as_simulated(name, scheme);
}

TEST_CASE("without the module the error names the file", "[mpi]") {
  const auto runtime = make_mpi_runtime({}, "/nowhere");
  REQUIRE_FALSE(runtime.ok());
  CHECK(runtime.status().code() == Code::not_supported);
  CHECK(runtime.status().message().find("libtessera_mpi.so is not there") == 0);
}

}  // namespace
}  // namespace tessera
