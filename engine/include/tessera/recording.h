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
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tessera/engine.h"
#include "tessera/runtime.h"
#include "tessera/zero3.h"

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

/// The whole recording in the notation of PyTorch's FSDP2 stream operations: "[stream] OP ...",
/// events numbered by first appearance. For comparing line by line with recorded runs.
std::vector<std::string> to_fsdp_notation(const Recording& recording);

/// A recording of FSDP1 in the notation of runs recorded with PyTorch 1.13; `units` are the
/// engine's.
std::vector<std::string> to_fsdp1_notation(const Recording& recording,
                                           std::span<const UnitInfo> units);

/// A recording of replicate: ready gradients and all-reduced buckets, as PyTorch's reducer logs
/// them.
std::vector<std::string> to_ddp_notation(const Recording& recording);

/// A recording of sharded_data_parallel: its collectives with elements and root, under "startup"
/// and "step N".
std::vector<std::string> to_fairscale_notation(const Recording& recording);

/// A recording of zero3 in the notation of runs recorded with DeepSpeed 0.9.0; `parameters` are the
/// engine's.
std::vector<std::string> to_deepspeed_notation(const Recording& recording,
                                               std::span<const PartitionedParameter> parameters);

}  // namespace tessera
