// SPDX-License-Identifier: Apache-2.0
// Which options of a runtime mean something where.
#pragma once

#include "cli/options/runtime_options.h"

namespace tessera::cli {

enum class Computes { on_cpu, on_gpu, in_simulator };

/// Fails: invalid_argument, naming the option and what to do. With --device auto a CPU may leave
/// aside what is about GPUs. `traced`: the run has a trace.
Status check_gpu_options(const RuntimeOptions& options, Computes where, bool traced);

}  // namespace tessera::cli
