// SPDX-License-Identifier: Apache-2.0
// Opens the runtime that the options of a training run mean.
#pragma once

#include <memory>
#include <string>

#include "cli/options/launch.h"
#include "cli/options/runtime_options.h"
#include "tessera/offload.h"
#include "tessera/process_runtime.h"
#include "tessera/sim/cost_model.h"

namespace tessera::cli {

struct OpenedRuntime {
  std::unique_ptr<sim::CostModel> cost;  // the simulator's, which must outlive it
  std::unique_ptr<CheckedRuntime> runtime;
  ProcessRuntime* process = nullptr;  // the same one, unless it is the simulator
  std::string name;                   // "local", "mpi", "cuda", "simulator", as traces say it

  /// One process has all ranks.
  bool alone() const { return runtime->local_ranks().count() == runtime->world().count(); }
  bool prints() const { return runtime->local_ranks().contains(0); }
  std::string device() const { return process != nullptr ? process->device() : ""; }
  GraphCounts graphs() const { return process != nullptr ? process->graphs() : GraphCounts{}; }
};

/// What a run needs besides its options.
struct RuntimeNeeds {
  Aio aio;                    // how files on NVMe are read and written
  TraceSink* sink = nullptr;  // of rank 0, or of each; must outlive the runtime
  bool owners = false;        // have memory that others lack: the scheme cannot use windows
  bool traced = false;        // on some rank
  bool own_trace = false;     // each rank has a sink that gets its own times
  bool fp8 = false;           // matrices are multiplied in fp8
};

/// Fails: not_supported (no MPI or no GPU here), saying what is missing; invalid_argument (options
/// that exclude each other); what the runtimes fail with.
Result<OpenedRuntime> open_runtime(const RuntimeOptions& options, const Launch& launch,
                                   const RuntimeNeeds& needs);

/// Ends what `opened` holds. Where processes wait for each other once more, this one exits after
/// `deadline_s` seconds if another hangs.
void close_runtime(OpenedRuntime& opened, double deadline_s);

}  // namespace tessera::cli
