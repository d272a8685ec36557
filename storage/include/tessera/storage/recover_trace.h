// SPDX-License-Identifier: Apache-2.0
// Makes a finished trace of what a recording has left that was stopped.
//
//   TESSERA_ASSIGN(const RecoveredTrace left, recover_trace("run.tessera.partial", "run.tessera"));
//   print(left.time);   // until when
#pragma once

#include <cstdint>
#include <string>

#include "tessera/status.h"
#include "tessera/types.h"

namespace tessera::storage {

struct RecoveredTrace {
  std::int32_t steps = 0;  // that are complete
  Time time = 0;           // of the latest event, ns
  std::string content_hash;
  bool was_finished = false;  // it needed nothing, and was only copied
};

/// Reads `path` as it is at this moment, also if the recording goes on, and writes a finished trace
/// to `out`, with a diagnostic that says that it was cut. `path` is left as it is. Fails: as
/// TraceReader::open; invalid_argument (`out` is `path`); corrupt (its tables are damaged);
/// io_error, naming the file.
Result<RecoveredTrace> recover_trace(const std::string& path, const std::string& out);

}  // namespace tessera::storage
