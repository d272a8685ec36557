// SPDX-License-Identifier: Apache-2.0
// OpenMP's threads, which oneDNN uses too, for this library's kernels and for the engine's.
#pragma once

#include "engine/numbers/parallel.h"

namespace tessera::kernels {

/// How many threads the matrix library may use when it is called from this thread, and kernels that
/// are not told.
void limit_threads(int threads);

/// Cores that this process may run on, at least 1.
int available_threads();

}  // namespace tessera::kernels
