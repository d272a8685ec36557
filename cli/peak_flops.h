// SPDX-License-Identifier: Apache-2.0
// What MFU refers to where nobody says it: how fast this process multiplies large matrices.
#pragma once

#include "tessera/types.h"

namespace tessera::cli {

/// FLOP/s, the best of several products of about ten milliseconds together; 0: built without
/// matrix products.
double measured_peak_flops(DType dtype, int threads);

}  // namespace tessera::cli
