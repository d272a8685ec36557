// SPDX-License-Identifier: Apache-2.0
// This process's rank of an MPI world, for tests that run alone and as several processes:
// `mpirun -n 4 test_mpi`.
#pragma once

#include "tests/backends/host/as_simulated.h"
#include "tests/require_ok.h"

namespace tessera::test {

inline std::unique_ptr<ProcessRuntime> mpi_runtime() {
  return require_value(make_mpi_runtime({}, TESSERA_BINARY_DIR));
}

inline void check_own_rank_as_simulated(const std::string& name, const Scheme& scheme) {
  const auto runtime = mpi_runtime();
  const Rank ranks = runtime->world().count();
  if (!has_groups_for(name, ranks)) return require_ok(runtime->finish());
  check_as_simulated(name, scheme, ranks, [&](const RankProgram& program) {
    require_ok(program(*runtime, runtime->local_ranks().first()));
  });
}

}  // namespace tessera::test
