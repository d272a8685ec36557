// SPDX-License-Identifier: Apache-2.0
// Figures of a trace's collectives: bandwidth of one, sums by kind, and the rank that came last.
//
//   TESSERA_ASSIGN(const Collectives collectives, collectives_of(trace));
//   for (const CommunicationKind& row : collectives.kinds) print(name_of(row.kind), row.transfer);
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "tessera/analysis/trace.h"

namespace tessera::analysis {

/// The bytes that each link of a ring of `ranks` carries, per byte of the collective (nccl-tests,
/// PERFORMANCE.md): (n-1)/n for all_gather, reduce_scatter and all_to_all, 2(n-1)/n for all_reduce,
/// 1 for the others.
double bus_factor(OpKind kind, std::int32_t ranks);

/// Bytes/s on the bus ("busbw") if `op` took `time` ns without waiting. 0: unknown, as the op has
/// no group or no time.
double bus_bandwidth(const Trace& trace, const storage::OpRow& op, Time time);

/// How far the kernels of ranks differ: the longest less the shortest of each collective. Who
/// begins last has the shortest, as all end together.
struct KernelSpread {
  Time sum = 0;
  Rank last = 0;    // the rank that has made others wait longest by beginning last
  Time caused = 0;  // its part of the sum
};

/// All collectives of one kind. Times are ns of the first recorded rank.
struct CommunicationKind {
  OpKind kind = OpKind::all_gather;
  std::int64_t count = 0;
  Bytes bytes{};
  std::optional<Time> transfer, wait;               // without a recorded rank: unknown
  std::optional<double> bus_bandwidth_bytes_per_s;  // median over the spans
  // The same of NCCL's kernels on the device, where the trace knows them.
  std::optional<Time> kernel;
  std::optional<double> kernel_bus_bandwidth_bytes_per_s;
  std::optional<KernelSpread> spread;  // where all ranks of the run take part, and end together
};

struct Collectives {
  std::vector<CommunicationKind> kinds;  // in the order of OpKind, those that occur
  /// Collectives of all ranks of which others have a kernel time and this rank has none.
  std::map<Rank, std::int64_t> without_kernel;
};

/// Reads the spans of one rank. Fails with what the reader reports.
Result<Collectives> collectives_of(const Trace& trace);

}  // namespace tessera::analysis
