// SPDX-License-Identifier: Apache-2.0
// The critical path of a step: what ran, or was waited for, at each moment so that the step could
// not end earlier, over ranks and streams; and how much shorter the step would be if something on
// it were.
//
// The idea: an operation begins when the last thing that it needs is over: the one before it on its
// stream, one that its stream waited for, the collective before it of its group, or the host, which
// had not issued it yet. A collective moves data once its last member is there. So the path is
// found backwards from the step's end. Shortening what is on it helps until another chain is as
// long; therefore gains are not lengths on the path but the step's end when all operations of the
// step are laid out again with those durations, after steps that were shortened, too.
//
//   TESSERA_ASSIGN(const CriticalPath path, critical_path(trace, typical_step(trace)));
//   for (const Shortening& row : path.rows) print(row.what, row.on_path, row.gain);
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/analysis/trace.h"

namespace tessera::analysis {

enum class PathPart : std::uint8_t {
  work,  // the op computes, copies or moves data
  wait,  // a collective waits for a member that was not recorded
  host,  // nothing that was recorded runs for it: the host had not issued the op
};
/// "work", "wait", "host".
std::string_view name_of(PathPart part);

/// [from, to) ns of the path is spent on `op` of `rank`.
struct PathSegment {
  Time from = 0, to = 0;
  PathPart part = PathPart::work;
  Rank rank = 0;
  std::int32_t stream = 0;
  std::int32_t op = 0;
};

/// What a row of the table would shorten.
enum class PathGroup : std::uint8_t {
  operation,  // all of one kind and phase, or the host
  unit,       // all of one sharding unit
  rank,       // the computations of one rank
};

/// What happens to the step if some operations take a tenth less time.
struct Shortening {
  PathGroup group = PathGroup::operation;
  std::string what;      // "backward compute", "all_gather, forward", "layers.17", "rank 21"
  Time on_path = 0;      // ns that they are on the path
  Time gain = 0;         // ns that the step ends earlier
  std::int32_t op = -1;  // the one that is on the path longest, on `rank`
  Rank rank = -1;
};
/// "operation", "unit", "rank".
std::string_view name_of(PathGroup group);
inline constexpr double shortened_by = 0.1;

struct CriticalPath {
  std::int32_t step = -1;  // -1: nothing was recorded that has one
  Time begin = 0, end = 0;
  std::vector<PathSegment> segments;  // ascending without gaps from `begin` to `end`
  std::vector<Shortening> rows;       // by group; the largest gains first
  std::int64_t ranks = 0;             // that were looked at: recorded ones, 256 at most

  /// ns of the segments of one part.
  Time time_of(PathPart part) const;
};

/// The steady step whose median time over the ranks is nearest to that of the run, the last of
/// equals; -1 without steps.
std::int32_t typical_step(const Trace& trace);

/// Reads the spans of `step` and of the one before. A step that does not exist has no path.
/// Durations are taken as they are: that kernels run slower beside collectives stays so.
/// Fails: with what the reader reports.
Result<CriticalPath> critical_path(const Trace& trace, std::int32_t step);

}  // namespace tessera::analysis
