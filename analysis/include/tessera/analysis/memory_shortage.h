// SPDX-License-Identifier: Apache-2.0
// The request for which a rank's memory was too small.
//
// The idea: a simulated run goes on after it, so the trace has it among its samples: the first that
// the error's sentence names, at its time or after. Of a real run, which ended there, nothing is
// known.
//
//   for (const auto& row : trace.diagnostics()) {
//     if (const auto shortage = memory_shortage(series, buffers, row)) print(shortage->free());
//   }
#pragma once

#include <optional>
#include <span>

#include "tessera/analysis/trace.h"

namespace tessera::analysis {

struct MemoryShortage {
  std::size_t sample = 0;  // of the series
  Time time = 0;
  storage::BufferRow request;
  Bytes asked{};
  Bytes limit{};      // what may be reserved; to 0.01 GiB, as the sentence says it
  Bytes allocated{};  // before the request, in the order of time

  /// What nobody holds: in pieces that are too small, or kept by the allocator for other streams.
  /// Negative if the host asked for what streams use later before that.
  Bytes free() const { return limit - allocated; }
};

/// Nothing if `error` is not a simulated rank's "out_of_memory" or the samples lack the request.
/// `series`: of the rank that it names; `buffers`: by ascending id.
std::optional<MemoryShortage> memory_shortage(const storage::MemorySeries& series,
                                              std::span<const storage::BufferRow> buffers,
                                              const storage::DiagnosticRow& error);

}  // namespace tessera::analysis
