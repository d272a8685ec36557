// SPDX-License-Identifier: Apache-2.0
// What MFU refers to: what was given, what a GPU's maker states, or how fast this process
// multiplies large matrices.
#pragma once

#include <string>

#include "cli/train/open_runtime.h"
#include "tessera/types.h"

namespace tessera::cli {

struct PeakFlops {
  double value = 0;  // FLOP/s of a rank; 0: unknown
  std::string name;  // "NVIDIA H200, bfloat16, dense"
};

/// `given` counts if it is not 0. `tf32`: as CudaOptions. On a CPU it is the best of several
/// products, which take about ten milliseconds together.
PeakFlops peak_flops_of(double given, const OpenedRuntime& opened, DType dtype, int threads,
                        bool tf32);

}  // namespace tessera::cli
