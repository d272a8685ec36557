// SPDX-License-Identifier: Apache-2.0
// The program of tessera train, simulated without numbers.
#pragma once

#include "tessera/sim/host_program.h"

namespace tessera::cli {

/// Makes the trainer that tessera train would make on CPUs, with the profile's threads, whatever
/// data it would read. Fails: not_supported (what tessera train refuses, too), and what
/// Trainer::create fails with.
sim::HostProgramMaker train_program();

}  // namespace tessera::cli
