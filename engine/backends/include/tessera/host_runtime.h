// SPDX-License-Identifier: Apache-2.0
// Carries one rank in this process, with real numbers in real memory: training on CPUs.
//
// The idea: operations wait in a queue per stream until what they depend on is done, as on a GPU;
// the host thread carries them out whenever it calls the runtime. Collectives run while it
// computes. Reductions add in rank order, so results are those of the numeric simulator, bit by
// bit.
//
//   TESSERA_ASSIGN(auto runtime, make_local_runtime({}));           // one rank
//   TESSERA_ASSIGN(auto engine, fully_shard(runtime->seam(), model, options));
//   ...
//   TESSERA_TRY(runtime->finish());         // before the engine goes: its work may still wait
//
// What goes wrong on one rank ends all of them with the same sentence: a rank that calls something
// else than the others, that is dead, silent for too long, or gives up.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "tessera/offload.h"
#include "tessera/runtime.h"

namespace tessera {

class BlockIo;  // engine/swap/block_io.h: a test may give one that fails

struct HostOptions {
  /// ns since some start that never changes. Without it nothing has a time and nothing times out.
  std::function<Time()> clock;
  Aio aio;                                            // how files on NVMe are read and written
  std::function<std::unique_ptr<BlockIo>()> swap_io;  // of each; none: the system's
  /// A rank that waits for others so long, without anything happening, ends the run.
  Time deadline = 300'000'000'000;
  /// Rank 0's gets everything but `begin` and `unit`, for all ranks, a step behind; other ranks'
  /// are ignored. All ranks then need a clock. A run that fails ends its trace with a diagnostic.
  /// Finish it after the runtime's `finish`, or when the runtime is gone. Must outlive the runtime.
  TraceSink* sink = nullptr;
  /// Asked while this rank waits: true ends the run (cancelled). Often a flag that a handler of
  /// SIGTERM sets, which is what launchers send to those who are left when a process dies.
  std::function<bool()> interrupted;
  /// Called in a thread of its own, with one sentence, when this rank has been inside of one
  /// operation or of the transport for longer than the deadline: it hangs, and only the end of the
  /// process helps (print the sentence, then _exit). Needs a clock that threads may share. Without
  /// it nobody looks.
  std::function<void(const std::string& why)> on_hang;
};

/// How often computations were launched as CUDA graphs, and why they were not.
struct GraphCounts {
  std::int64_t launched = 0;
  // Those whose body ran instead:
  std::int64_t first = 0;       // for the first time
  std::int64_t moved = 0;       // on memory on which it had not run
  std::int64_t unrepeated = 0;  // it says not to repeat anything, or needs the CPU

  std::int64_t all() const { return launched + first + moved + unrepeated; }
};

class HostRuntime {
 public:
  virtual ~HostRuntime() = default;

  virtual Runtime& seam() = 0;
  /// Lets collectives make progress; for bodies that compute for milliseconds.
  virtual Status poll() = 0;
  /// Carries out everything that was submitted and waits for all ranks. Call it once, at the end; a
  /// runtime that goes without it ends the run of all ranks.
  /// Fails: communication_error (a rank is dead or gave up, naming it), timed_out (naming
  /// operation, unit and rank), divergent (naming rank, number and both operations); hazard, if the
  /// result of a collective was never used. Other calls fail like this, too, and then all later
  /// ones.
  virtual Status finish() = 0;
  /// Ends the run of all ranks because of something that went wrong outside of the runtime: the
  /// others' calls fail with "rank 2 gave up: " and `why`.
  virtual void give_up(const Status& why) = 0;
  /// Most bytes of device memory that were taken from the system so far.
  virtual Bytes peak_reserved() const = 0;
  /// The GPU's name as its driver says it, "NVIDIA H200"; "": there is none.
  virtual std::string device() const { return {}; }
  /// On this rank so far; nothing without CudaOptions::graphs.
  virtual GraphCounts graphs() const { return {}; }
};

/// A world of one rank. Fails: out_of_memory.
Result<std::unique_ptr<HostRuntime>> make_local_runtime(const HostOptions& options);

/// This process's rank of the MPI world that it was started in (mpirun, srun): starts MPI if nobody
/// has. `modules`: the folder of libtessera_mpi.so; "": beside the program, or ../lib/tessera.
/// Fails: not_supported (built without MPI, or its library is missing), naming the file;
/// communication_error; out_of_memory.
Result<std::unique_ptr<HostRuntime>> make_mpi_runtime(const HostOptions& options,
                                                      const std::string& modules = "");

/// Whether make_mpi_runtime finds its module and the libraries that it needs; MPI is not started.
/// Fails: not_supported, naming what is missing.
Status mpi_available(const std::string& modules = "");

}  // namespace tessera
