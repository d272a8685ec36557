// SPDX-License-Identifier: Apache-2.0
// What was asked of a ZeRO-3 run and comes to nothing, because of sizes that nobody knows before.
#pragma once

#include <string>
#include <vector>

#include "engine/schemes/zero3/zero3_parts.h"

namespace tessera {

/// A sentence each. REQUIRES: memory is allocated.
std::vector<std::string> without_effect(const Zero3Parts& parts);

}  // namespace tessera
