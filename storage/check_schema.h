// SPDX-License-Identifier: Apache-2.0
// Whether a database holds the tables of a trace and nothing else, before anything in it is read.
//
// The idea: what a file says about itself is SQL that SQLite would run. A view in the place of a
// table can run for ever, a trigger or a generated column can do what it likes; so the statements
// are compared with those of schema.sql, and only the text of comments may differ.
#pragma once

#include "storage/database.h"

namespace tessera::storage {

/// Fails: corrupt, naming what is missing, different, or no part of a trace. A table that came
/// later than the format may be missing, and so may views, which nothing reads.
Status check_schema(const Database& database);

}  // namespace tessera::storage
