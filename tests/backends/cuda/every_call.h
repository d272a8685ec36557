// SPDX-License-Identifier: Apache-2.0
// A short program in which a backend uses every function that it has tables for.
#pragma once

#include "tests/backends/cuda/cuda_ranks.h"
#include "tests/backends/cuda/slow_drive.h"
#include "tests/backends/host/recorded_trace.h"

namespace tessera::test {

/// From one of the places where something goes wrong to the next that is tried: all of them, but
/// where every access is checked.
#ifdef TESSERA_SANITIZED
inline constexpr int place_distance = 5;
#else
inline constexpr int place_distance = 1;
#endif

/// Two ranks. Fails with `corrupt` if a number is not what it should be.
Status every_call(ProcessRuntime& host, Rank rank);

/// Options that it needs. The trace must outlive the run.
inline CudaOptions every_call_options(RecordedTrace& trace) {
  static DriveHabits quick;
  return {.sink = &trace,
          .pinned_memory = Bytes{4096},
          .aio = {.use_gds = true},
          .swap_io = [](const MoveBlock& move) { return std::make_unique<SlowDrive>(quick, move); },
          .windows = CudaOptions::Windows::on,
          .graphs = true};
}

}  // namespace tessera::test
