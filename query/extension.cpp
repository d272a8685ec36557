// SPDX-License-Identifier: Apache-2.0
// The virtual tables for other programs: `.load tessera_trace` in sqlite3, load_extension
// elsewhere.
#include "query/module.h"

SQLITE_EXTENSION_INIT1

/// Shows the trace that is the connection's main database.
extern "C" __attribute__((visibility("default"))) int sqlite3_tesseratrace_init(
    sqlite3* connection, char** error, const sqlite3_api_routines* api) {
  SQLITE_EXTENSION_INIT2(api);
  const char* const path = sqlite3_db_filename(connection, "main");
  if (path == nullptr || *path == '\0') {
    *error = sqlite3_mprintf("Open a trace before this extension is loaded.");
    return SQLITE_ERROR;
  }
  const tessera::Status status =
      tessera::query::register_tables(connection, path, /*verified=*/false);
  if (status.ok()) return SQLITE_OK;
  *error = sqlite3_mprintf("%s", status.message().c_str());
  return SQLITE_ERROR;
}
