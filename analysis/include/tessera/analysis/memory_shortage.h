// SPDX-License-Identifier: Apache-2.0
// The request for which a rank's memory was too small, and where it is among the rank's samples.
//
// The idea: a simulated run goes on after it, so the samples have the request: the first of its
// buffer that needs more than there is, at its time or after. Of a real run, which ended there,
// nothing is known.
//
//   for (const auto& row : trace.memory_shortages()) {
//     const auto sample = sample_of(row, series);
//     for (const Room& room : free_rooms(row)) print(room.bytes, room.count);
//   }
#pragma once

#include <optional>
#include <vector>

#include "tessera/analysis/trace.h"

namespace tessera::analysis {

/// The sample of the request in `series`, which is of its rank; none if it was not recorded.
std::optional<std::size_t> sample_of(const storage::MemoryShortageRow& shortage,
                                     const storage::MemorySeries& series);

/// Free memory in pieces of a power of two.
struct Room {
  Bytes from{};            // pieces of [from, 2 * from)
  Bytes bytes{};           // of all of them
  std::int64_t count = 0;  // > 0
};
/// How free memory is cut up: neighbours of one segment are one piece. The largest first.
std::vector<Room> free_rooms(const storage::MemoryShortageRow& shortage);

/// The part of free memory that is not in its largest piece, 0 to 1: 0 if it is one piece.
double fragmentation(const storage::MemoryShortageRow& shortage);

}  // namespace tessera::analysis
