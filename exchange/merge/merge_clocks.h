// SPDX-License-Identifier: Apache-2.0
// The clocks of files that become one trace.
#pragma once

#include <algorithm>
#include <vector>

#include "exchange/merge/merge_sources.h"

namespace tessera::exchange {

/// What to add to the times of one file: a line through points, as clocks drift.
struct ClockLine {
  struct Point {
    Time at = 0;  // by this clock
    Time offset = 0;
  };
  std::vector<Point> points;  // ascending

  Time aligned(Time time) const;
};

struct MergeClocks {
  std::vector<ClockLine> lines;     // by source
  std::vector<std::size_t> lonely;  // sources that have no collective in common with others
  Time spread = 0;                  // ClockOffsets::spread, the largest of any stretch of time

  /// By the clock of the trace, 0 at least.
  Time aligned(std::size_t source, Time time) const {
    return std::max<Time>(0, lines[source].aligned(time));
  }
};

/// No aligned time is before 0 where those of the files are not. Reads all spans of several files.
/// Fails: as MergeOps and MergeSpans.
Result<MergeClocks> find_merge_clocks(const MergeSources& all);

}  // namespace tessera::exchange
