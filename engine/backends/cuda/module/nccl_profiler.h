// SPDX-License-Identifier: Apache-2.0
// NCCL reports to a profiler plugin how it carries out each collective, and when its kernels ran;
// this module is such a plugin.
//
// The structures are those that NCCL 2.28 documents in ext-profiler/README.md, "API (v5)", and
// ext-profiler/example/nccl/profiler_v5.h. NCCL finds the object `ncclProfiler_v5` in the library
// that NCCL_PROFILER_PLUGIN names.
//
// The idea: what NCCL gets as handles are numbers, not addresses, so that nothing it says too late
// can do harm. Per channel of a collective NCCL's progress thread reports a start and an end by the
// GPU's timer; when all channels have ended the collective's time is known.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/backends/cuda/nccl_api.h"

namespace tessera {

inline constexpr std::uint64_t profile_collectives = 1 << 1;  // ncclProfileColl
inline constexpr std::uint64_t profile_kernels = 1 << 6;      // ncclProfileKernelCh
inline constexpr int kernel_ended = 22;                       // ncclProfilerKernelChStop

/// The parts of ncclProfilerEventDescr_v5_t's union that are used. This is its largest.
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

/// One channel of the collective that is its parent.
struct ProfiledKernel {
  std::uint8_t channel;
  std::uint64_t start;  // ns, the GPU's timer
};

struct ProfilerEvent {
  std::uint64_t type;
  void* parent;
  int rank;
  union {
    ProfiledCollective collective;
    ProfiledKernel kernel;
  };
};

/// ncclProfilerEventStateArgs_v5_t: of kernels.
struct ProfilerState {
  std::uint64_t end;  // ns, the GPU's timer
};

struct ProfilerV5 {
  const char* name;
  int (*init)(void** context, std::uint64_t communicator, int* events, const char* name, int nodes,
              int ranks, int rank,
              void (*log)(int, unsigned long, const char*, int, const char*, ...));
  int (*start_event)(void* context, void** event, ProfilerEvent* description);
  int (*stop_event)(void* event);
  int (*record_event_state)(void* event, int state, ProfilerState* arguments);
  int (*finalize)(void* context);
};

// As in NcclApi.
bool last_collective(NcclCollective* collective);
bool next_kernel(NcclKernel* kernel);

}  // namespace tessera

extern "C" __attribute__((visibility("default"))) const tessera::ProfilerV5 ncclProfiler_v5;
