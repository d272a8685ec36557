// SPDX-License-Identifier: Apache-2.0
// What a trace says about its collectives, by kind.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "tessera/storage/trace_reader.h"

namespace tessera::cli {

/// How far the kernels of ranks differ: the longest less the shortest of each collective. Who
/// begins last has the shortest, as all end together.
struct KernelSpread {
  Time sum = 0;
  Rank last = 0;    // the rank that has made others wait longest by beginning last
  Time caused = 0;  // its part of the sum
};

/// All collectives of one kind. Times are those of the first recorded rank.
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
  std::vector<CommunicationKind> kinds;
  /// Collectives of all ranks of which others have a kernel time and this rank has none.
  std::map<Rank, std::int64_t> without_kernel;
};

/// Fails with what the reader reports.
Result<Collectives> read_collectives(const storage::TraceReader& reader);

}  // namespace tessera::cli
