// SPDX-License-Identifier: Apache-2.0
// Makes a trace of what other tools have recorded, so that it can be looked at, asked and compared
// like one of our own.
//
// The idea: a format says what it is by its content. Files of one run, one per rank or several of
// a rank, become one trace: collectives are matched across ranks, clocks are aligned by them, and
// what a format does not tell is left unknown and named.
//
//   TESSERA_ASSIGN(const Imported done, import_traces({"rank0.json.gz", "rank1.json.gz"},
//   "run.tessera")); for (const std::string& warning : done.warnings) print(warning);
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tessera/status.h"
#include "tessera/types.h"

namespace tessera::exchange {

struct ImportOptions {
  std::string version;  // writer version and commit, for the trace
  // Called while files are read, with bytes of all of them together.
  std::function<void(std::int64_t done, std::int64_t total)> progress;
  // Spans that are kept in memory at once (about 60 bytes each). More are refused.
  std::int64_t spans_max = 64'000'000;
};

struct ImportedFile {
  std::string path;
  std::string format;  // "PyTorch profiler", ...
};

/// Something that was wrong with the run, as the files tell it: out of memory, a collective that a
/// rank has not called. It is a diagnostic of the trace, too.
struct ImportedFinding {
  std::string code;  // "missing_collective", "collective_mismatch", "missing_rank", ...
  Rank rank = -1;    // -1: none in particular
  std::string message;
};

struct Imported {
  std::vector<ImportedFile> files;
  std::vector<Rank> ranks;  // that have spans or memory, ascending
  std::int32_t world = 1;   // ranks of the run, recorded or not
  std::int32_t steps = 0;
  std::int64_t spans = 0;
  std::int64_t collectives = 0;          // by all ranks
  std::int64_t matched_collectives = 0;  // that have a partner on another rank
  // ns to add to the clock of ranks[i], so that collectives end together; empty: one rank.
  std::vector<Time> clock_offsets;
  std::vector<ImportedFinding> findings;  // the earliest first
  std::vector<std::string> warnings;      // one sentence each: what was left out, or cannot be told
};

/// Names of the formats that can be read.
std::vector<std::string> import_formats();

/// Reads `files`, which are of one run, and writes a trace to `out`. Nothing is at `out` after a
/// failure but what was there before. Fails, naming the file: io_error (missing, unreadable, `out`
/// cannot be written), invalid_argument (of no known format, files of different runs), corrupt
/// (damaged), not_supported, out_of_memory (more spans than `spans_max`).
Result<Imported> import_traces(const std::vector<std::string>& files, const std::string& out,
                               const ImportOptions& options = {});

}  // namespace tessera::exchange
