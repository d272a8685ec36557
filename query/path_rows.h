// SPDX-License-Identifier: Apache-2.0
// The table `critical_path`: a row for each stretch of time of the typical step, as `report` and
// the inspector show it.
#pragma once

#include "query/table.h"

namespace tessera::query {

extern const TableKind critical_path_table;

}  // namespace tessera::query
