// SPDX-License-Identifier: Apache-2.0
// Makes one trace of several that were recorded of one run: each rank's own, or what was left of
// them when the run was killed.
//
// The idea: operations are the same in all files and are compared; times of a rank are taken from
// the file that has most of it. Each file has a clock; those of several are aligned by the ends of
// collectives, along lines, as clocks drift. Who waited for whom is then found out anew.
//
//   TESSERA_ASSIGN(const Merged done, merge_traces({"run.0.tessera", "run.1.tessera.partial"},
//   "run.tessera")); for (const std::string& warning : done.warnings) print(warning);
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tessera/status.h"
#include "tessera/types.h"

namespace tessera::exchange {

struct MergedFile {
  std::string path;
  std::vector<Rank> ranks;  // that are taken from it, ascending
  Time offset = 0;          // ns that were added to its times, at its begin
};

struct Merged {
  std::vector<MergedFile> files;  // in the order in which they were named
  std::vector<Rank> ranks;        // that have spans, ascending
  std::int32_t world = 1;
  std::int32_t steps = 0;
  std::int64_t spans = 0;
  Time spread = 0;  // ns by which ends of one collective still differ, the median
  std::vector<std::string> warnings;
};

/// Reads `files`, finished or not, and writes a trace to `out`. `version`: of the writer. Nothing
/// is at `out` after a failure but what was there before. Files are read as the trace is
/// written: about a chunk of each rank is in memory, rows of buffers, peaks and diagnostics, and 48
/// bytes for each operation and each chunk.
/// Members of a group are taken for neighbours, of those called "replicate", "replicas" and "across
/// nodes" for ranks of equal distance, as all schemes make them. Fails: as TraceReader::open and
/// TraceWriter::create; invalid_argument (no file, files that are not of one run, naming two and
/// what differs; a file that is `out`); not_supported (imported traces, whose operations are of one
/// file only).
Result<Merged> merge_traces(const std::vector<std::string>& files, const std::string& out,
                            const std::string& version = {});

}  // namespace tessera::exchange
