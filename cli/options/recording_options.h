// SPDX-License-Identifier: Apache-2.0
// What of a run its trace records, as flags.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "tessera/status.h"
#include "tessera/trace.h"

namespace tessera::cli {

struct RecordingOptions {
  std::string steps = "all";
  bool no_memory = false;
};

void add_recording_options(CLI::App& command, RecordingOptions& options);

/// The steps [from, to).
struct StepRange {
  std::int32_t from = 0, to = std::numeric_limits<std::int32_t>::max();
};

/// "100-119", "7", "all", of a run of so many steps. Fails: invalid_argument, naming
/// --record-steps.
Result<StepRange> parse_step_range(const std::string& text, std::int64_t steps);

/// Says it to a TraceRun or to what becomes one. Fails: as `parse_step_range`.
template <class Run>
Status apply(const RecordingOptions& options, std::int64_t steps, Run& run) {
  TESSERA_ASSIGN(const StepRange recorded, parse_step_range(options.steps, steps));
  run.recorded_from = recorded.from;
  run.recorded_to = recorded.to;
  run.records_memory = !options.no_memory;
  return {};
}

}  // namespace tessera::cli
