// SPDX-License-Identifier: Apache-2.0
// A deadline for what a process does last: MPI_Finalize waits for all ranks, for ever if one hangs.
#pragma once

#include <string>

namespace tessera::cli {

/// If this process still exists after `seconds`, it prints `why`, one line, and ends with exit code
/// 1. Whoever calls again replaces both.
void exit_within(double seconds, std::string why);

}  // namespace tessera::cli
