// SPDX-License-Identifier: Apache-2.0
// Which operations of a run the times of a table are of.
#pragma once

#include <fmt/format.h>

#include <limits>
#include <string>

#include "tessera/trace.h"

namespace tessera::cli {

inline std::string recorded_part(const TraceRun& run) {
  if (run.recorded_ranks.empty()) return "no rank was recorded: times are unknown";
  std::string text =
      fmt::format("times and median bus bandwidth of rank {}", run.recorded_ranks.front());
  const bool whole =
      run.recorded_from <= 0 && run.recorded_to == std::numeric_limits<std::int32_t>::max();
  if (whole) return text;
  return text + fmt::format(", of the steps {} to {}, the only ones with recorded operations",
                            run.recorded_from, run.recorded_to - 1);
}

}  // namespace tessera::cli
