// SPDX-License-Identifier: Apache-2.0
#include "analysis/op_times.h"

#include <limits>

#include "analysis/busy_times.h"
#include "tessera/analysis/spans.h"

namespace tessera::analysis {
namespace {

OpTimes times_of_collective(BusyTimes& computing, Time begin, Time ready, Time end) {
  const Time at_begin = computing.before(begin), at_ready = computing.before(ready);
  const Time at_end = computing.before(end);
  OpTimes times;
  times.duration = end - begin;
  times.waiting = ready - begin - (at_ready - at_begin);
  times.transfer = end - ready - (at_end - at_ready);
  return times;
}

OpTimes times_of_other(BusyTimes& collectives, Time begin, Time end) {
  OpTimes times;
  times.duration = end - begin;
  const Time at_begin = collectives.before(begin);
  times.beside = collectives.before(end) - at_begin;
  return times;
}

}  // namespace

Status add_rank(const Trace& trace, const OpTable& table, Rank rank, const ComparedSteps& steps,
                TimesOfOps& times) {
  constexpr Time from = std::numeric_limits<Time>::min(), to = std::numeric_limits<Time>::max();
  TESSERA_ASSIGN(const std::vector<storage::Lane> lanes, trace.reader().lanes(rank, from, to));
  BusyTimes computing(compute_lanes(trace, lanes)), collectives(collective_lanes(trace, lanes));
  for (const storage::Lane& lane : lanes) {
    for (std::size_t i = 0; i < lane.op.size(); ++i) {
      const std::int32_t index = table.find(lane.op[i]);
      if (index < 0) continue;
      const auto op = static_cast<std::size_t>(index);
      if (table.step(op) < steps.first || table.step(op) >= steps.end) continue;
      times[op].add(is_collective(table.look(op).kind)
                        ? times_of_collective(computing, lane.begin[i], lane.ready[i], lane.end[i])
                        : times_of_other(collectives, lane.begin[i], lane.end[i]));
    }
  }
  return {};
}

}  // namespace tessera::analysis
