// SPDX-License-Identifier: Apache-2.0
#include "cli/options/recording_options.h"

#include <fmt/format.h>

#include <charconv>

namespace tessera::cli {

void add_recording_options(CLI::App& command, RecordingOptions& options) {
  const char* group = "Output";
  command
      .add_option("--record-steps", options.steps,
                  "Steps with operations, spans and memory samples: 100-119, 7, all")
      ->group(group);
  command.add_flag("--no-record-memory", options.no_memory, "Record no memory samples")
      ->group(group);
}

Result<StepRange> parse_step_range(const std::string& text, std::int64_t steps) {
  StepRange range;
  if (text == "all") return range;
  std::int32_t last = 0;
  const char* const end = text.data() + text.size();
  const auto first = std::from_chars(text.data(), end, range.from);
  const bool single = first.ec == std::errc() && first.ptr == end;
  if (single) last = range.from;
  const bool dash = first.ec == std::errc() && !single && *first.ptr == '-';
  const auto second = dash ? std::from_chars(first.ptr + 1, end, last) : first;
  const bool good = (single || (dash && second.ec == std::errc() && second.ptr == end)) &&
                    range.from >= 0 && last >= range.from &&
                    last < std::numeric_limits<std::int32_t>::max();
  if (!good) {
    return Status(Code::invalid_argument,
                  fmt::format("--record-steps {}: give steps such as 100-119, 7 or all; they count "
                              "from 0",
                              text));
  }
  range.to = last + 1;
  if (range.to <= steps) return range;
  return Status(Code::invalid_argument, fmt::format("--record-steps {}: the run has only the steps "
                                                    "0 to {}",
                                                    text, steps - 1));
}

}  // namespace tessera::cli
