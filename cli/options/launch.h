// SPDX-License-Identifier: Apache-2.0
// Reads the environment variables of launchers: mpirun, srun, torchrun and their like.
#pragma once

#include <string>

#include "tessera/status.h"
#include "tessera/types.h"

namespace tessera::cli {

struct Launch {
  Rank ranks = 1;
  Rank rank = 0;
  Rank local_ranks = 1;  // on this machine
  Rank local_rank = 0;
  bool by_launcher = false;
  bool by_torchrun = false;  // its variables, and no MPI
};
Launch read_launch();

/// Where torchrun's ranks find each other: MASTER_ADDR, and the port after MASTER_PORT, on which
/// torchrun itself listens. Fails: invalid_argument, naming the variable that is missing or wrong.
Result<std::string> torchrun_meeting();

}  // namespace tessera::cli
