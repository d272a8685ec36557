// SPDX-License-Identifier: Apache-2.0
// The table `rank_step`: what each rank did with each step.
#pragma once

#include "query/table.h"

namespace tessera::query {

/// A row for each step of each rank, recorded or not.
extern const TableKind rank_step_table;

}  // namespace tessera::query
