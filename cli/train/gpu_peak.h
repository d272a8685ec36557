// SPDX-License-Identifier: Apache-2.0
// The peak FLOP/s of GPUs that their maker states, to which MFU refers.
#pragma once

#include <string_view>

#include "tessera/types.h"

namespace tessera::cli {

/// FLOP/s of dense matrix products with inputs of `dtype` on the GPU that the driver calls so
/// ("NVIDIA H200"); 0: not known here. float32 is real float32, unless `tf32`.
double stated_peak_flops(std::string_view gpu, DType dtype, bool tf32 = false);

}  // namespace tessera::cli
