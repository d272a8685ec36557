// SPDX-License-Identifier: Apache-2.0
// What a run says about its CUDA graphs.
#pragma once

#include <string>

#include "tessera/host_runtime.h"

namespace tessera::cli {

/// "312 of 340 computations were launched as CUDA graphs; 28 ran their bodies: 20 for the first
/// time, 8 on other memory".
std::string graphs_text(const GraphCounts& counts);

}  // namespace tessera::cli
