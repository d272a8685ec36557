// SPDX-License-Identifier: Apache-2.0
// Writes a trace for other tools.
//
// The idea: a trace is gone through rank by rank, so memory is that of one rank, and what a format
// cannot hold is left out and named.
//
//   TESSERA_ASSIGN(const auto trace, analysis::Trace::open("run.tessera"));
//   TESSERA_ASSIGN(const Exported done,
//                  export_trace(trace, "run.perfetto-trace", {.format = ExportFormat::perfetto}));
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/analysis/trace.h"

namespace tessera::exchange {

enum class ExportFormat : std::uint8_t {
  perfetto,         // protobuf, for ui.perfetto.dev and trace_processor
  chrome,           // JSON of the PyTorch profiler, for chrome://tracing, Perfetto and HTA
  csv,              // a line per span
  sqlite,           // ordinary rows, for any SQL
  memory_snapshot,  // a pickle, for pytorch.org/memory_viz
};

/// "perfetto", "chrome", "csv", "sqlite", "memory-snapshot".
std::string_view name_of(ExportFormat format);
std::optional<ExportFormat> parse_export_format(std::string_view name);

struct ExportOptions {
  ExportFormat format = ExportFormat::perfetto;
  std::vector<Rank> ranks;  // ascending; empty: all that were recorded
  std::function<void(std::int64_t done, std::int64_t total)> progress;  // ranks
};

struct Exported {
  std::vector<std::string> files;
  std::int64_t spans = 0;
  Time span_time = 0;  // ns: the sum of their durations
  std::int64_t memory_samples = 0;
  std::vector<std::string> warnings;  // one sentence each: what the format does not hold
};

/// Writes `out`, replacing an earlier export; where `out` has "{rank}" a file per rank, as HTA
/// reads profiles. After a failure there is nothing of the file at its name but what was there
/// before. Fails: invalid_argument (a rank that was not recorded, no rank at all, no memory for a
/// snapshot, a file that no export wrote), io_error, and what the reader reports.
Result<Exported> export_trace(const analysis::Trace& trace, const std::string& out,
                              const ExportOptions& options);

}  // namespace tessera::exchange
