// SPDX-License-Identifier: Apache-2.0
// Where each rank's time goes in a step: compute, communication, exposed, blocking, waiting.
//
// The idea: the compute stream is busy except in gaps, and gaps only appear when it waits. Exposed
// communication is what collectives and gaps have in common; each pair is counted when the later
// of the two becomes known, so no span is stored and every rank is exact. Where two streams
// communicate at once only one of them is counted: of a collective, what others do not cover yet.
#pragma once

#include <deque>
#include <map>

#include "engine/tracing/clock_kernels.h"
#include "engine/tracing/clock_pool.h"
#include "tessera/trace.h"

namespace tessera {

class StepAccounts {
 public:
  explicit StepAccounts(std::size_t ranks);

  /// The compute stream stands still in [begin, end) of every rank; `blocking`: for a collective.
  void gap(const Clock& begin, const Clock& end, bool blocking);
  /// A collective of `stream` runs or waits in [begin, end) of every rank.
  void collective(std::int32_t stream, const Clock& begin, const Clock& end);

  /// A collective that all ranks enter: they meet at `ready` and transfer for `cost`.
  void meet_all(const Clock& arrival, Time ready, Time cost);
  /// Likewise for one rank of a group: it waited and then transferred.
  void meet(Rank rank, Time waited, Time cost);

  /// Ends a step at `end` (the compute stream's clock) and sends its row of every rank. Memory
  /// columns are the caller's. Clears the sums.
  void close(std::int32_t step, const Clock& end, std::span<const Bytes> peak_allocated,
             std::span<const Bytes> peak_reserved, TraceSink* sink);

 private:
  struct Interval {
    Clock begin, end;
  };
  using Intervals = std::deque<Interval>;  // one after the other

  void add_overlap(const Interval& interval, const Interval& other);
  void add_overlaps(const Interval& interval, const Intervals& others);
  void add_overlaps_apart(const Interval& interval, Intervals::const_iterator first,
                          Intervals::const_iterator last);
  /// Replaces each of `pieces` by what is before and what is behind `other`.
  void cut(std::vector<Interval>& pieces, const Interval& other);
  bool has_length(const Interval& interval) const;
  void forget_before(Time horizon);

  std::int64_t ranks_;
  ClockPool pool_;
  using Sums = std::vector<Time>;
  // All without what `transfer_all_` says of every rank.
  Sums idle_, blocking_;  // gaps of the compute stream: for other work, for a collective
  Sums exposed_, wait_, transfer_;
  Time transfer_all_ = 0;
  std::vector<Time> step_begin_;
  Intervals gaps_;
  struct Stream {
    Intervals covered;  // by its collectives and by none of another stream's
    Time horizon = 0;   // later ones begin after this
  };
  std::map<std::int32_t, Stream> streams_;
};

}  // namespace tessera
