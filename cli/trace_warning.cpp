// SPDX-License-Identifier: Apache-2.0
#include "cli/trace_warning.h"

#include <fmt/format.h>

#include <chrono>

#include "cli/command.h"

namespace tessera::cli {

void warn_of_trace(const std::string& path, const storage::TraceInfo& info) {
  if (!info.unfinished) return;
  print_warnings({fmt::format(
      "\"{}\" is an unfinished recording: it was stopped, or goes on; it has {} whole steps and "
      "reaches until {:.6f} s (tessera trace recover makes it a finished trace)",
      path, info.steps, static_cast<double>(info.end) * 1e-9)});
}

void warn_of_recording(const std::string& sentence) { print_warnings({sentence}); }

Time steady_time() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

}  // namespace tessera::cli
