// SPDX-License-Identifier: Apache-2.0
#include "cli/train/open_runtime.h"

#include <fmt/format.h>

#include <cstdlib>
#include <numeric>

#include "cli/command.h"
#include "cli/options/gpu_options.h"
#include "cli/stop_signal.h"
#include "cli/trace_warning.h"
#include "cli/train/exit_deadline.h"
#include "tessera/cuda_runtime.h"
#include "tessera/host_runtime.h"
#include "tessera/sim/cluster.h"
#include "tessera/sim/lockstep_runtime.h"

namespace tessera::cli {
namespace {

Result<OpenedRuntime> open_simulator(const RuntimeOptions& options, const RuntimeNeeds& needs) {
  TESSERA_ASSIGN(auto cluster, sim::load_cluster(options.cluster, 1));
  OpenedRuntime opened{.cost = sim::make_cost_model(cluster), .name = "simulator"};
  sim::LockstepOptions lockstep;
  lockstep.world_size = options.ranks;
  lockstep.ranks_per_node = cluster.gpus_per_node;
  lockstep.cost = opened.cost.get();
  lockstep.numerics = true;
  lockstep.aio = needs.aio;
  if (options.device == "cuda") {  // as a run there would
    lockstep.processor = options.hopper_attention ? Processor::hopper : Processor::gpu;
  }
  lockstep.sink = needs.sink;
  lockstep.recorded_ranks.resize(static_cast<std::size_t>(options.ranks));
  std::iota(lockstep.recorded_ranks.begin(), lockstep.recorded_ranks.end(), 0);
  TESSERA_ASSIGN(opened.runtime, sim::LockstepRuntime::create(lockstep));
  return opened;
}

OpenedRuntime opened_process(std::unique_ptr<ProcessRuntime> runtime, std::string name) {
  ProcessRuntime* const process = runtime.get();
  return {.runtime = std::move(runtime), .process = process, .name = std::move(name)};
}

Status with_hint(const Status& status) {
  if (status.code() != Code::not_supported) return status;
  return Status(Code::not_supported,
                fmt::format("several processes need MPI: {}; --runtime local trains on one",
                            status.message()));
}

// Processes on CPUs and on GPUs take these alike.
template <class Options>
Options host_options(const RuntimeOptions& options, const RuntimeNeeds& needs) {
  Options host;
  host.clock = steady_time;
  host.aio = needs.aio;
  host.sink = needs.sink;
  host.own_trace = needs.own_trace;
  host.deadline = static_cast<Time>(options.deadline_s * 1e9);
  return host;
}

Result<OpenedRuntime> open_on_cpu(const RuntimeOptions& options, const std::string& runtime,
                                  const RuntimeNeeds& needs) {
  auto host = host_options<HostOptions>(options, needs);
  if (runtime == "mpi") {
    host.on_hang = [](const std::string& why) {
      fmt::print(stderr, "tessera: {}\n", why);
      std::_Exit(exit_failed);
    };
  }
  auto opened = runtime == "mpi" ? make_mpi_runtime(host) : make_local_runtime(host);
  if (!opened.ok()) return runtime == "mpi" ? with_hint(opened.status()) : opened.status();
  return opened_process(std::move(opened).value(), runtime);
}

Result<CudaOptions::Windows> windows_of(const RuntimeOptions& options, const RuntimeNeeds& needs) {
  using Windows = CudaOptions::Windows;
  if (options.windows == "off") return Windows::off;
  if (options.windows == "auto") return needs.owners ? Windows::off : Windows::automatic;
  if (needs.owners) {
    return Status(Code::invalid_argument,
                  "--windows on needs what ranks exchange at equal offsets, but owners have memory "
                  "that others lack: use another scheme, or --windows off");
  }
  return Windows::on;
}

Result<OpenedRuntime> open_on_gpu(const RuntimeOptions& options, const Launch& launch,
                                  const std::string& runtime, const RuntimeNeeds& needs) {
  auto cuda = host_options<CudaOptions>(options, needs);
  // One process alone stops between two steps; several cannot agree on one.
  if (runtime != "local") cuda.interrupted = [] { return stop_signal() != 0; };
  cuda.share_gpu = options.share_gpu;
  cuda.profile_nccl = options.profile_nccl;
  cuda.deterministic = options.deterministic;
  cuda.tf32 = options.tf32;
  cuda.hopper_attention = options.hopper_attention;
  cuda.fp8 = needs.fp8;
  TESSERA_ASSIGN(cuda.windows, windows_of(options, needs));
  cuda.graphs = options.cuda_graphs;
  cuda.pinned_memory = Bytes{static_cast<std::int64_t>(options.pinned_gib * (1 << 30))};
  cuda.local_rank = runtime == "local" ? 0 : launch.local_rank;
  if (runtime == "mpi") cuda.ranks = CudaOptions::of_mpi;
  if (runtime == "torchrun") {
    TESSERA_ASSIGN(cuda.comm_id, torchrun_meeting());
    cuda.rank = launch.rank;
    cuda.ranks = launch.ranks;
  }
  TESSERA_ASSIGN(auto opened, make_cuda_runtime(cuda));
  return opened_process(std::move(opened), "cuda");
}

}  // namespace

Result<OpenedRuntime> open_runtime(const RuntimeOptions& options, const Launch& launch,
                                   const RuntimeNeeds& needs) {
  const std::string runtime = runtime_of(options, launch);
  if (runtime == "simulator") {
    TESSERA_TRY(check_gpu_options(options, Computes::in_simulator, needs.traced));
    return open_simulator(options, needs);
  }
  const bool cuda = options.device == "cuda" || (options.device == "auto" && cuda_available().ok());
  TESSERA_TRY(check_gpu_options(options, cuda ? Computes::on_gpu : Computes::on_cpu, needs.traced));
  if (cuda) return open_on_gpu(options, launch, runtime, needs);
  if (runtime == "torchrun") {
    return Status(Code::not_supported,
                  "ranks that torchrun starts find each other on GPUs only: add --device cuda, or "
                  "start them by mpirun");
  }
  return open_on_cpu(options, runtime, needs);
}

void close_runtime(OpenedRuntime& opened, double deadline_s) {
  if (opened.process != nullptr && opened.process->world().count() > 1) {
    exit_within(deadline_s,
                fmt::format("this rank was done {:.1f} s ago, but other processes do not end: one "
                            "of them hangs; what was saved is complete",
                            deadline_s));
  }
  opened.process = nullptr;
  opened.runtime.reset();
}

}  // namespace tessera::cli
