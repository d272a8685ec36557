// SPDX-License-Identifier: Apache-2.0
#include "exchange/import/lanes.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>

namespace tessera::exchange {
namespace {

constexpr Time overlap_max = 5'000;  // ns, of spans on a device that really follow each other

/// The depths of one lane.
struct Depths {
  std::int32_t lane = -1;
  std::array<Time, depth_max> end{};
  std::array<std::int32_t, depth_max> lanes{};

  explicit Depths(std::int32_t first) : lane(first) {
    end.fill(std::numeric_limits<Time>::min());
    lanes.fill(-1);
    lanes[0] = first;
  }
};

std::int32_t deeper_lane(ImportedRank& rank, ImportedRun& run, std::int32_t lane, int depth) {
  const ImportedLane first = rank.lanes[static_cast<std::size_t>(lane)];
  return rank.lane(fmt::format("{} ({})", run.text(first.name), depth + 1), first.role, run);
}

/// False: too deep.
bool place(ImportedSpan& span, Depths& depths, ImportedRank& rank, ImportedRun& run) {
  const bool host = rank.lanes[static_cast<std::size_t>(depths.lane)].role == StreamRole::host;
  Time& last = depths.end[0];
  if (!host && span.begin < last && last - span.begin <= overlap_max && span.end >= last) {
    span.begin = last;
  }
  for (int depth = 0; depth < depth_max; ++depth) {
    const auto d = static_cast<std::size_t>(depth);
    if (span.begin < depths.end[d]) continue;
    if (depths.lanes[d] < 0) depths.lanes[d] = deeper_lane(rank, run, depths.lane, depth);
    span.lane = depths.lanes[d];
    depths.end[d] = span.end;
    return true;
  }
  return false;
}

}  // namespace

void split_lanes(ImportedRank& rank, ImportedRun& run) {
  const auto in_order = [](const ImportedSpan& a, const ImportedSpan& b) {
    if (a.lane != b.lane) return a.lane < b.lane;
    if (a.begin != b.begin) return a.begin < b.begin;
    return a.end > b.end;  // the outer one first
  };
  std::sort(rank.spans.begin(), rank.spans.end(), [&](const auto& a, const auto& b) {
    if (in_order(a, b)) return true;
    if (in_order(b, a)) return false;
    return a.name < b.name;
  });
  std::int64_t too_deep = 0;
  Depths depths(-1);
  std::erase_if(rank.spans, [&](ImportedSpan& span) {
    if (span.lane != depths.lane) depths = Depths(span.lane);
    const bool placed = place(span, depths, rank, run);
    too_deep += placed ? 0 : 1;
    return !placed;
  });
  if (too_deep > 0) run.lost(fmt::format("spans nested deeper than {}", depth_max), too_deep);
  std::sort(rank.spans.begin(), rank.spans.end(), in_order);
}

}  // namespace tessera::exchange
