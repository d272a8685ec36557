// SPDX-License-Identifier: Apache-2.0
// The tables `memory_sample` and `allocation`: what recorded ranks hold, and for how long.
#pragma once

#include "query/table.h"

namespace tessera::query {

/// A row for each change of a rank's memory.
extern const TableKind memory_sample_table;
/// A row for each buffer from its allocation to its release; `end` is NULL if it is never released.
extern const TableKind allocation_table;

}  // namespace tessera::query
