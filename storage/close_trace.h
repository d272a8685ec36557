// SPDX-License-Identifier: Apache-2.0
// What makes a recording a finished trace, whoever finishes it: the recorder, or somebody who finds
// what is left of one.
#pragma once

#include <cstdint>
#include <string>

#include "storage/database.h"
#include "tessera/types.h"

namespace tessera::storage {

/// How far a recording has come.
struct Reached {
  std::int32_t steps = 0;  // that are complete
  Time end = 0;            // the latest end of any of them, ns
};

/// As its tables say. `time`: of the latest event, ns.
struct ReachedByTables : Reached {
  Time time = 0;
  std::string content_hash;  // of the finished trace
};
Result<ReachedByTables> reached_by(const Database& database);

/// Writes the last rows of a trace, the content hash among them, which it returns: "" unless it is
/// `hashed`. The transaction is the caller's.
Result<std::string> close_trace(Database& database, const Reached& reached, bool hashed = true);

/// The same for what is left of a recording that was stopped, with a diagnostic that says `why` it
/// ends. Fails: corrupt, io_error.
Result<ReachedByTables> close_cut_trace(Database& database, const std::string& why);

}  // namespace tessera::storage
