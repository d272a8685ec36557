// SPDX-License-Identifier: Apache-2.0
// SQLite's functions: those of the program that we are a part of, or, in the loadable extension,
// those that the host hands over, which may be another copy of SQLite.
#pragma once

#ifdef TESSERA_SQLITE_EXTENSION
#include <sqlite3ext.h>
extern const sqlite3_api_routines* sqlite3_api;
#else
#include <sqlite3.h>
#endif
