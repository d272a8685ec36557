// SPDX-License-Identifier: Apache-2.0
#include "analysis/blocking_times.h"

#include <algorithm>
#include <limits>

namespace tessera::analysis {
namespace {

constexpr int chain_max = 64;  // operations that one pause is followed back over

}  // namespace

BlockingTimes::BlockingTimes(const Trace& trace, Lanes lanes, Lanes compute, Time from) {
  std::int32_t first = std::numeric_limits<std::int32_t>::max(), last = -1;
  for (const storage::Lane* lane : lanes) {
    if (lane->op.empty()) continue;
    const auto [low, high] = std::minmax_element(lane->op.begin(), lane->op.end());
    first = std::min(first, *low);
    last = std::max(last, *high);
  }
  if (last < first || compute.empty()) return;
  const auto waits = trace.reader().waits(first, std::int64_t{last} + 1);
  if (!waits.ok() || waits->op.empty()) return;
  known_ = true;
  for (const storage::Lane* lane : compute) {
    for (std::size_t i = 1; i < lane->begin.size(); ++i) {
      if (lane->begin[i] < from || lane->end[i - 1] >= lane->begin[i]) continue;
      follow(trace, lanes, *waits, {lane, i}, lane->end[i - 1]);
    }
  }
}

BlockingTimes::Place BlockingTimes::find(const Trace& trace, Lanes lanes, std::int32_t op) const {
  const std::int32_t stream = trace.op(op).stream;
  for (const storage::Lane* lane : lanes) {
    if (lane->stream != stream) continue;
    const auto at = std::lower_bound(lane->op.begin(), lane->op.end(), op);
    if (at == lane->op.end() || *at != op) return {};
    return {lane, static_cast<std::size_t>(at - lane->op.begin())};
  }
  return {};
}

// Back from `paused`, which began later than what is before it on its stream, until `from`.
void BlockingTimes::follow(const Trace& trace, Lanes lanes, const storage::OpWaits& waits,
                           Place paused, Time from) {
  Time until = paused.lane->begin[paused.index];
  for (int k = 0; k < chain_max && from < until; ++k) {
    Place cause;
    const auto consider = [&](const Place& place) {
      if (place.lane == nullptr) return;
      const Time end = place.lane->end[place.index];
      if (end <= from || end > until) return;
      if (cause.lane == nullptr || end > cause.lane->end[cause.index]) cause = place;
    };
    for (const std::int32_t id : waits.of(paused.lane->op[paused.index])) {
      consider(find(trace, lanes, id));
    }
    if (k > 0 && paused.index > 0) consider({paused.lane, paused.index - 1});
    if (cause.lane == nullptr) return;  // the host was late, or something that was not recorded
    const std::int32_t op = cause.lane->op[cause.index];
    const Time begin = std::max(from, cause.lane->begin[cause.index]);
    if (is_collective(trace.op(op).kind)) times_[op] += cause.lane->end[cause.index] - begin;
    until = begin;
    paused = cause;
  }
}

}  // namespace tessera::analysis
