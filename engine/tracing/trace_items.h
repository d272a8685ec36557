// SPDX-License-Identifier: Apache-2.0
// The calls of a step as values: those whose meaning depends on times.
#pragma once

#include <variant>
#include <vector>

#include "engine/tracing/waited_ops.h"
#include "tessera/rank_set.h"
#include "tessera/trace.h"

namespace tessera {

struct TracedStream {
  StreamRole role = StreamRole::compute;
};

struct TracedGroups {
  CommunicatorId id;
  RankGroups groups;
};

struct TimedOp {
  std::int32_t id = 0;
  OpKind kind = OpKind::compute;
  StreamId stream;
  CommunicatorId communicator;
  RankSet where;
  WaitedOps::Ids waits;
  EventId first_live;
};

struct MemoryChange {
  std::int32_t buffer = 0;  // its row
  MemoryClass memory_class = MemoryClass::temporary;
  Bytes delta{};
  Bytes address_end{};
  RankSet ranks;
  StreamId stream;     // of an allocation
  WaitedOps::Ids ops;  // it happens when they are over; null: long ago
};

struct StepEnd {
  std::int32_t step = 0;
  std::vector<PeakMemory> peaks;
  WaitedOps::Ids ops;
};

using TraceItem = std::variant<TimedOp, MemoryChange, StepEnd, TracedStream, TracedGroups>;
using TraceItems = std::vector<TraceItem>;

}  // namespace tessera
