// SPDX-License-Identifier: Apache-2.0
// What is in memory of one recorded rank: spans by stream, and memory.
#pragma once

#include <limits>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "inspector/model/memory_pyramid.h"
#include "inspector/model/op_classes.h"
#include "inspector/model/span_pyramid.h"
#include "tessera/analysis/spans.h"

namespace tessera::inspector {

/// One span: an op on a rank.
struct SpanRef {
  Rank rank = 0;
  std::int32_t stream = 0;
  std::int32_t op = -1;
  bool operator==(const SpanRef&) const = default;
};

/// One stream of one rank.
struct LaneData {
  storage::Lane spans;
  std::unique_ptr<SpanPyramid> pyramid;

  /// The place of an op's span.
  std::optional<std::size_t> find(std::int32_t op) const;
};

/// What is known about one recorded rank; of a long run in a range of time.
struct RankData {
  std::vector<LaneData> lanes;                // ascending stream id
  std::vector<std::int32_t> order;            // their streams, compute first
  std::vector<const storage::Lane*> compute;  // those of `lanes` that compute
  Status problem;                             // why there are no lanes, if they cannot be read
  std::size_t spans = 0;                      // of all lanes
  std::int64_t used = 0;                      // the frame in which somebody looked last

  const LaneData* lane(std::int32_t stream) const;
};

/// Those of [from, to). Whether the rank was recorded says the caller.
RankData load_rank(const analysis::Trace& trace, OpClasses& classes, Rank rank, Time from, Time to);

/// What a rank holds elsewhere than on its device, of one class; `allocated` is its sum.
struct HostMemory {
  MemoryClass memory_class = MemoryClass::pinned_host;
  storage::MemorySeries samples;
  std::unique_ptr<MemoryPyramid> pyramid;
};

/// The memory of one recorded rank.
struct RankMemory {
  storage::MemorySeries samples;
  std::unique_ptr<MemoryPyramid> pyramid;  // nullptr without samples
  std::vector<HostMemory> host;            // where there is any
  Status problem;                          // why, if they cannot be read
  std::int64_t used = 0;                   // the frame in which somebody looked last
  // Of a long run:
  bool by_steps = false;  // of each step what was held at its peak, the host's left out
  // What samples are of; what is held before is in front of them.
  std::pair<Time, Time> reach{std::numeric_limits<Time>::min(), std::numeric_limits<Time>::max()};
  std::int64_t serial = 0;  // another one wherever the samples are others; 0: none
};

/// In place, as pyramids refer to samples.
void set_samples(RankMemory& memory, storage::MemorySeries samples);

}  // namespace tessera::inspector
