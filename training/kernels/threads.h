// SPDX-License-Identifier: Apache-2.0
// OpenMP's threads, which oneDNN uses too, for this library's kernels and for the engine's.
#pragma once

#include "engine/numbers/parallel.h"

namespace tessera::kernels {

/// Limits the threads that the matrix library uses when this thread calls it, and those of kernels
/// without a number of threads of their own.
void limit_threads(int threads);

/// Cores that this process may run on, at least 1.
int available_threads();

}  // namespace tessera::kernels
