// SPDX-License-Identifier: Apache-2.0
// Makes the virtual tables known to a connection of SQLite.
//
//   TESSERA_TRY(register_tables(connection, "run.tessera", /*verified=*/false));
//   // SELECT * FROM span WHERE rank = 3
#pragma once

#include <string>

#include "query/sqlite_api.h"
#include "tessera/status.h"

namespace tessera::query {

/// `path`: the trace that they show; it is opened when one of them is read for the first time, and
/// its tables are compared with their hash then unless that was done (`verified`). Fails: corrupt
/// (SQLite refuses them).
Status register_tables(sqlite3* connection, const std::string& path, bool verified);

}  // namespace tessera::query
