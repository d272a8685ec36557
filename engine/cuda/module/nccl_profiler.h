// SPDX-License-Identifier: Apache-2.0
// NCCL tells a profiler plugin how it carries out each collective; this module is such a plugin.
//
// The structures are those that NCCL 2.28 documents in ext-profiler/README.md, "API (v5)", and
// ext-profiler/example/nccl/profiler_v5.h. NCCL finds the object `ncclProfiler_v5` in the library
// that NCCL_PROFILER_PLUGIN names.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tessera {

inline constexpr std::uint64_t profile_collectives = 1 << 1;  // ncclProfileColl

/// The part of ncclProfilerEventDescr_v5_t's union that describes a collective, its largest.
struct ProfiledCollective {
  std::uint64_t sequence;
  const char* function;
  const void* input;
  void* output;
  std::size_t count;
  int root;
  const char* dtype;
  std::uint8_t channels;
  std::uint8_t warps;
  const char* algorithm;
  const char* protocol;
  void* group;
};

struct ProfilerEvent {
  std::uint64_t type;
  void* parent;
  int rank;
  ProfiledCollective collective;
};

struct ProfilerV5 {
  const char* name;
  int (*init)(void** context, std::uint64_t communicator, int* events, const char* name, int nodes,
              int ranks, int rank,
              void (*log)(int, unsigned long, const char*, int, const char*, ...));
  int (*start_event)(void* context, void** event, ProfilerEvent* description);
  int (*stop_event)(void* event);
  int (*record_event_state)(void* event, int state, void* arguments);
  int (*finalize)(void* context);
};

/// "Ring Simple, 24 channels": of the collective that this process handed to NCCL last. Each is
/// told once. Returns how many characters that is; 0: NCCL does not use the plugin.
int last_collective(char* text, int bytes);

}  // namespace tessera

extern "C" __attribute__((visibility("default"))) const tessera::ProfilerV5 ncclProfiler_v5;
