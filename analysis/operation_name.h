// SPDX-License-Identifier: Apache-2.0
// What operations of one kind and phase are called in tables.
#pragma once

#include <string>

#include "tessera/analysis/trace.h"

namespace tessera::analysis {

/// "backward compute", "all_gather, forward", "recompute".
std::string operation_of(const storage::OpRow& op);

}  // namespace tessera::analysis
