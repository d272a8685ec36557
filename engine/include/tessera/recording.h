// SPDX-License-Identifier: Apache-2.0
// A runtime that carries out nothing and remembers everything: what an engine decides, in order.
//
// The idea: the list is checked like any run (whole groups, happens-before, use after release) and
// has no times, so it is the same for every cluster. Tests and `tessera ops` read it.
//
//   Recording recording;
//   auto runtime = make_recording_runtime(2, recording);
//   ... drive an engine on *runtime ...
//   for (const Record& r : recording.records) std::cout << to_line(recording, r) << '\n';
//
// A scheme that was compared with recorded runs also has their notation (to_fsdp_notation in
// fully_shard.h, and so on).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tessera/runtime.h"

namespace tessera {

/// One call of the runtime.
struct Record {
  enum class Kind : std::uint8_t { op, allocate, release, host_wait };
  Kind kind = Kind::op;
  Op op;                       // op; its `after` is empty, see below
  std::vector<EventId> after;  // op: what it waited for
  EventId event;               // op: its event; release: after what; host_wait: for what
  BufferId buffer;             // allocate, release
  RankSet where;
  Cause cause;      // op, allocate
  StreamId stream;  // op, allocate
};

struct Recording {
  struct Buffer {
    std::string name;
    Bytes bytes{};
    MemoryClass memory_class = MemoryClass::temporary;
    std::string unit;
    StreamId stream;
  };
  std::vector<Record> records;
  std::vector<Buffer> buffers;       // by BufferId
  std::vector<std::string> streams;  // by StreamId
  Rank world_size = 0;
};

/// A runtime for ranks [0, world_size) that appends to `recording`, which must outlive it.
std::unique_ptr<Runtime> make_recording_runtime(Rank world_size, Recording& recording);

/// "step 0 forward   all_gather  all_gather  model.layers.3  96 B bfloat16  in 48 out 96": one
/// readable line without times.
std::string to_line(const Recording& recording, const Record& record);

}  // namespace tessera
