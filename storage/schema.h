// SPDX-License-Identifier: Apache-2.0
// The numbers and the text that make a SQLite file a trace. schema.sql is the source of both; the
// build turns it into schema_sql.
#pragma once

#include <cstdint>

namespace tessera::storage {

/// "TSRA", PRAGMA application_id.
inline constexpr std::uint32_t trace_application_id = 0x54535241;
/// PRAGMA user_version: the newest format that this code reads and the one it writes.
inline constexpr std::uint32_t trace_format_version = 3;

/// storage/schema.sql.
extern const char* const schema_sql;

}  // namespace tessera::storage
