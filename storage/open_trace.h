// SPDX-License-Identifier: Apache-2.0
// Tells what a file is before SQLite sees it, so that each mistake has its own sentence.
#pragma once

#include <string>

#include "storage/database.h"

namespace tessera::storage {

/// Fails: as TraceReader::open.
Result<Database> open_trace(const std::string& path);

}  // namespace tessera::storage
