// SPDX-License-Identifier: Apache-2.0
// The tables `span` and `op_rank`: a row for each operation on each recorded rank.
#pragma once

#include <memory>
#include <vector>

#include "query/table.h"

namespace tessera::query {

/// When a rank was busy with an op, and nothing else: the fastest of the tables.
extern const TableKind span_table;
/// The same with everything that is known about the op, and what of a collective was exposed.
extern const TableKind op_rank_table;

}  // namespace tessera::query
