// SPDX-License-Identifier: Apache-2.0
// Figures of one span: durations, bandwidth, what was exposed, how early it was issued.
//
//   const auto lanes = trace.reader().lanes(rank, 0, trace.info().end + 1);
//   const SpanFacts facts = facts_of(trace, compute_lanes(trace, *lanes), lane, index);
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "tessera/analysis/trace.h"

namespace tessera::analysis {

/// Times are ns, rates bytes/s or FLOP/s; 0 where there is none.
struct SpanFacts {
  Time begin = 0;
  Time duration = 0;
  Time wait = 0;      // collectives: until the last member arrived
  Time transfer = 0;  // collectives: from then on
  Time exposed = 0;   // collectives: parts in which the rank's compute streams do nothing
  double bus_bandwidth = 0;
  Time kernel = 0;                  // collectives: on the device, as the communication library says
  double kernel_bus_bandwidth = 0;  // by that time
  double flops_per_s = 0;           // compute
  bool collective = false;
};

/// Lanes of one rank; they must outlive what points to them.
using Lanes = std::span<const storage::Lane* const>;

/// Those whose stream computes.
std::vector<const storage::Lane*> compute_lanes(const Trace& trace,
                                                const std::vector<storage::Lane>& lanes);

/// Those whose stream communicates.
std::vector<const storage::Lane*> collective_lanes(const Trace& trace,
                                                   const std::vector<storage::Lane>& lanes);

/// `lane`, with span `index`, is of the rank that `compute` belongs to.
SpanFacts facts_of(const Trace& trace, Lanes compute, const storage::Lane& lane, std::size_t index);

/// The parts of [begin, end) in which no lane of `compute` runs, ascending.
std::vector<std::pair<Time, Time>> exposed_parts(Lanes compute, Time begin, Time end);

/// What a prefetch was for, in the order of the program, on one rank. Times are ns.
struct PrefetchUse {
  std::int32_t units = 0;  // whose compute starts between its issue and its first use
  Time issued = 0;         // the end of what was submitted to compute before it
  Time used = 0;           // the begin of the first operation of its unit behind it
  Time idle = 0;           // from then on compute had nothing else to do: later gathers are late
};

/// None if the op is no prefetch, or is not used in `compute`.
std::optional<PrefetchUse> prefetch_use(const Trace& trace, Lanes compute,
                                        const storage::OpRow& prefetch);

}  // namespace tessera::analysis
