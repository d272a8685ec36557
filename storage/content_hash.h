// SPDX-License-Identifier: Apache-2.0
// The hash of what a trace says, whatever wrote it.
//
// The idea: it runs over the tables' rows in the order of their keys, not over the file's bytes, so
// another SQLite version may lay out the pages differently. meta.version, which names the writer,
// is left out: two versions that record the same get the same hash.
#pragma once

#include <string>

#include "storage/database.h"

namespace tessera::storage {

/// 16 hexadecimal digits. Chunks enter by their checksum. Fails: as reading the tables does.
Result<std::string> content_hash_of(const Database& database);

}  // namespace tessera::storage
