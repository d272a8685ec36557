// SPDX-License-Identifier: Apache-2.0
// A runtime of one rank in this process, on a CPU or a GPU: what every such rank can do besides.
//
//   TESSERA_ASSIGN(std::unique_ptr<ProcessRuntime> runtime, make_local_runtime({}));
//   TESSERA_ASSIGN(auto engine, fully_shard(*runtime, model, options));
//   ...
//   TESSERA_TRY(runtime->finish());         // before the engine goes: its work may still wait
#pragma once

#include <string>
#include <vector>

#include "tessera/checked_runtime.h"

namespace tessera {

/// How often computations were launched as CUDA graphs, and why they were not.
struct GraphCounts {
  std::int64_t launched = 0;
  // Those whose body ran instead:
  std::int64_t first = 0;       // for the first time
  std::int64_t moved = 0;       // on memory on which it had not run
  std::int64_t unrepeated = 0;  // it says not to repeat anything, or needs the CPU

  std::int64_t all() const { return launched + first + moved + unrepeated; }
};

class ProcessRuntime : public CheckedRuntime {
 public:
  /// Lets collectives make progress; for bodies that compute for milliseconds.
  Status poll() override = 0;
  /// Carries out everything that was submitted and waits for all ranks. Call it once, at the end; a
  /// runtime that goes without it ends the run of all ranks.
  /// Fails: communication_error (a rank is dead or gave up, naming it), timed_out (naming
  /// operation, unit and rank), divergent (naming rank, number and both operations); hazard, if the
  /// result of a collective was never used. Other calls fail like this, too, and then all later
  /// ones.
  Status finish() override = 0;
  /// Ends the run of all ranks because of something that went wrong outside of the runtime: the
  /// others' calls fail with "rank 2 gave up: " and `why`.
  virtual void give_up(const Status& why) = 0;
  /// The texts of all ranks, by rank; each passes its own, of any length. All ranks call it,
  /// between two operations; stops the host. It is no operation: programs compare with it what must
  /// be alike before a step. Fails: as `finish`; not_supported, where only a GPU's library connects
  /// the ranks.
  virtual Result<std::vector<std::string>> exchange(const std::string& own) {
    if (world().count() == 1) return std::vector<std::string>{own};
    return Status(Code::not_supported, "texts are exchanged by ranks that MPI connects only");
  }
  /// The GPU's name as its driver says it, "NVIDIA H200"; "": there is none.
  virtual std::string device() const { return {}; }
  /// On this rank so far; nothing without CudaOptions::graphs.
  virtual GraphCounts graphs() const { return {}; }

 protected:
  using CheckedRuntime::CheckedRuntime;
};

}  // namespace tessera
