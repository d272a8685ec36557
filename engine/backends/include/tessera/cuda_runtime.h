// SPDX-License-Identifier: Apache-2.0
// Runs one rank on an NVIDIA GPU: CUDA streams and events, NCCL between ranks.
//
// The idea: the engine is the same as everywhere; it enqueues operations and goes on. Only `wait`,
// `read` and bodies that work on numbers with the CPU stop the host. CUDA and NCCL live in a module
// that is opened here, so a program starts where they are missing and can say what is.
//
//   if (Status here = cuda_available(); !here.ok()) return here;     // says what is missing
//   TESSERA_ASSIGN(auto runtime, make_cuda_runtime({.deadline = 60'000'000'000}));
//   TESSERA_ASSIGN(auto engine, fully_shard(*runtime, model, options));
//   ...
//   TESSERA_TRY(runtime->finish());
//
// A rank that fails aborts its communicators and reports the reason to the others, as far as it
// can; a rank that does not receive it gives up at the deadline.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "tessera/offload.h"
#include "tessera/process_runtime.h"
#include "tessera/trace.h"

namespace tessera {

class BlockIo;        // engine/swap/block_io.h
struct BlockRequest;  // likewise

struct CudaOptions {
  /// ns since some start that never changes. Without it nothing times out.
  std::function<Time()> clock = {};
  /// The longest time in ns that a rank waits for others while nothing happens; then it ends the
  /// run.
  Time deadline = 300'000'000'000;
  /// Asked while this rank waits: true ends the run (cancelled).
  std::function<bool()> interrupted = {};
  /// Rank 0's gets the trace of all ranks, as HostOptions::sink; times are the GPUs'. All ranks
  /// then need a clock. Without MPI NCCL carries times, and every sixteenth step waits for those
  /// before it.
  TraceSink* sink = nullptr;
  /// As HostOptions::own_trace.
  bool own_trace = false;
  /// The trace says by which algorithm, protocol and channels NCCL carries out collectives, and
  /// how long their kernels run on every GPU: NCCL loads the module as its profiler plugin, unless
  /// NCCL_PROFILER_PLUGIN names another. A rank that does not set it has no times of kernels.
  bool profile_nccl = false;
  /// The GPU among those that this process sees; -1: `local_rank`, modulo their number.
  int device = -1;
  /// The number of this process among those on its machine; -1: the rank.
  Rank local_rank = -1;
  /// All of the pinned host memory that Memory::pinned_host may use, taken when it is first used.
  /// 0: as much as is needed; each time it is not enough, this rank's work is waited for and what
  /// is there moves to at least twice as much, so after a step or two it no longer happens.
  Bytes pinned_memory{};
  Aio aio = {};  // how files on NVMe are read and written
  /// Makes the BlockIo of each file on NVMe, for tests; it moves blocks by the function it is
  /// given.
  using MoveBlock = std::function<std::int64_t(const BlockRequest&)>;
  std::function<std::unique_ptr<BlockIo>(const MoveBlock& move)> swap_io = {};
  /// Several ranks may use one GPU, for tests: NCCL then takes them for different machines and
  /// sends everything through the loopback interface. One process per rank.
  bool share_gpu = false;
  /// NCCL reads and writes device memory without copies of its own: the allocator's memory becomes
  /// a symmetric window (NCCL 2.27), and in one NVLink domain copy engines gather (2.28). That is
  /// seven eighths of what the rank with the least memory has free, taken at once. All ranks must
  /// then have what they exchange at equal offsets, as schemes without owners do.
  /// automatic: on where NCCL has them and neither `deterministic` nor `share_gpu` is set.
  enum class Windows { off, on, automatic };
  Windows windows = Windows::off;
  /// Launches the work that computations repeat (Compute::repeated) as CUDA graphs from the second
  /// time on: the host has less to do, the numbers are the same. Graphs take device memory besides
  /// the planned memory.
  bool graphs = false;
  /// NCCL adds in one order for one number of ranks, not in the fastest for each size of message.
  /// Not with windows: how NCCL adds there is its own business.
  bool deterministic = false;
  /// Products of float32 matrices take their operands with TF32's 10 bits of mantissa, for tensor
  /// cores: several times as fast, and other bits than on a CPU. Sums stay float32.
  bool tf32 = false;
  /// Attention and its gradient by kernels for Hopper (wgmma, TMA) where they fit: halves, heads of
  /// 64 or 128, compute capability 9. The gradient takes 4 more bytes for each number of a layer's
  /// queries. Sums of other tiles: other bits than without, the same in each run. No GPU has run
  /// them yet.
  bool hopper_attention = false;
  /// Models will be made with LanguageModelOptions::fp8, whose products cuBLASLt computes from 12.9
  /// on, on compute capability 9 alone: other GPUs are refused. No GPU has run them yet.
  bool fp8 = false;
  /// How many ranks there are: one, those of the MPI world that this process was started in, or so
  /// many that find each other without MPI. The latter need `comm_id`, "host:port" where rank 0
  /// listens; of torchrun's variables that is MASTER_ADDR and a port that nobody uses.
  static constexpr Rank of_mpi = 0;
  Rank ranks = 1;
  Rank rank = 0;
  std::string comm_id = {};
};

/// Whether this machine can do it. `modules`: the folder of libtessera_cuda.so; "": as
/// make_mpi_runtime finds its. Returns what was found: "8 x NVIDIA H200, CUDA 13.0, ...".
/// Fails: not_supported, naming what is missing or too old: module, library, driver, GPU, NCCL.
Result<std::string> cuda_available(const std::string& modules = "");

/// Whether files on NVMe can be read into device memory (Aio::use_gds). Returns cuFile's version:
/// "cuFile 1.15". Whether it takes the direct way is up to driver and file system (gdscheck says).
/// Fails: not_supported, naming what is missing.
Result<std::string> gpu_direct_storage(const std::string& modules = "");

/// Opens this process's rank of the world that the options name.
/// Fails: not_supported, as above, or without MPI where it is needed; invalid_argument (rank,
/// comm_id); out_of_memory; communication_error, timed_out (NCCL does not start).
Result<std::unique_ptr<ProcessRuntime>> make_cuda_runtime(const CudaOptions& options,
                                                          const std::string& modules = "");

}  // namespace tessera
