// SPDX-License-Identifier: Apache-2.0
// An imported run as a trace.
#pragma once

#include "exchange/import/match_collectives.h"
#include "tessera/exchange/import.h"

namespace tessera::exchange {

/// Clocks are aligned. Numbers ranks' times from 0, orders lanes and steps, and writes everything
/// to `sink`, warnings as diagnostics. Counts what it wrote into `done`. Fails: invalid_argument
/// (nothing to write, or more ranks and steps than a trace can have), and as the sink.
Status write_run(ImportedRun& run, const CollectiveMatches& matches, TraceSink& sink,
                 Imported& done);

}  // namespace tessera::exchange
