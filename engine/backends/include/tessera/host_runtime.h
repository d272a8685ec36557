// SPDX-License-Identifier: Apache-2.0
// Opens a rank of this process on a CPU, with real numbers in real memory.
//
// The idea: operations wait in a queue per stream until what they depend on is done, as on a GPU;
// the host thread carries them out whenever it calls the runtime. Collectives run while it
// computes. Reductions add in rank order, so results are those of the numeric simulator, bit by
// bit.
//
//   TESSERA_ASSIGN(auto runtime, make_local_runtime({}));           // one rank
//   TESSERA_ASSIGN(auto engine, fully_shard(*runtime, model, options));
//   ...
//   TESSERA_TRY(runtime->finish());         // before the engine goes: its work may still wait
//
// An error of one rank ends all of them with the same sentence: a rank that calls something else
// than the others, that is dead, silent for too long, or gives up.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "tessera/offload.h"
#include "tessera/process_runtime.h"
#include "tessera/trace.h"

namespace tessera {

class BlockIo;  // engine/swap/block_io.h: a test may give one that fails

struct HostOptions {
  /// ns since some start that never changes. Without it nothing has a time and nothing times out.
  std::function<Time()> clock = {};
  Aio aio = {};                                            // how files on NVMe are read and written
  std::function<std::unique_ptr<BlockIo>()> swap_io = {};  // of each; none: the system's
  /// A rank that waits for others so long, without anything happening, ends the run.
  Time deadline = 300'000'000'000;
  /// Rank 0's gets everything but `begin` and `unit`, for all ranks, a step behind; other ranks'
  /// are ignored. All ranks then need a clock. A run that fails ends its trace with a diagnostic.
  /// Finish it after the runtime's `finish`, or when the runtime is gone. Must outlive the runtime.
  TraceSink* sink = nullptr;
  /// Every rank's sink gets the same, with the times of that rank alone by its own clock, and
  /// nothing is sent: what a rank records outlives the others. The same on all ranks. Steps of
  /// other ranks have no length, and `ready` of a collective is its begin.
  bool own_trace = false;
  /// Asked while this rank waits: true ends the run (cancelled). Often a flag that a handler of
  /// SIGTERM sets, which is what launchers send to those who are left when a process dies.
  std::function<bool()> interrupted = {};
  /// Called in a thread of its own, with one sentence, when this rank has been inside of one
  /// operation or of the transport for longer than the deadline: it hangs, and only the end of the
  /// process helps (print the sentence, then _exit). Needs a clock that threads may share. Without
  /// it nobody looks.
  std::function<void(const std::string& why)> on_hang = {};
};

/// A world of one rank. Fails: out_of_memory.
Result<std::unique_ptr<ProcessRuntime>> make_local_runtime(const HostOptions& options);

/// This process's rank of the MPI world that it was started in (mpirun, srun): starts MPI if nobody
/// has. `modules`: the folder of libtessera_mpi.so; "": that of the environment variable
/// TESSERA_MODULES, else beside the program, its ../lib/tessera, or where libtessera_c.so lies.
/// Fails: not_supported (built without MPI, or its library is missing), naming the file;
/// communication_error; out_of_memory.
Result<std::unique_ptr<ProcessRuntime>> make_mpi_runtime(const HostOptions& options,
                                                         const std::string& modules = "");

/// Whether make_mpi_runtime finds its module and the libraries that it needs; MPI is not started.
/// Fails: not_supported, naming what is missing.
Status mpi_available(const std::string& modules = "");

}  // namespace tessera
