// SPDX-License-Identifier: Apache-2.0
#include "cli/carrier.h"

#include <fmt/format.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <numeric>

#include "cli/command.h"
#include "cli/options/checks.h"
#include "cli/options/gpu_options.h"
#include "cli/train/exit_deadline.h"
#include "tessera/cuda_runtime.h"
#include "tessera/sim/cluster.h"
#include "tessera/sim/lockstep_runtime.h"

namespace tessera::cli {
namespace {

// Launchers ask those who are left to end when a process died.
volatile std::sig_atomic_t asked_to_end = 0;

Time now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

class HostBackend final : public Carrier {
 public:
  HostBackend(std::unique_ptr<ProcessRuntime> runtime, std::string name, double deadline_s)
      : runtime_(std::move(runtime)), name_(std::move(name)), deadline_s_(deadline_s) {}
  ~HostBackend() override {
    if (runtime_->world().count() == 1) return;
    exit_within(deadline_s_,
                fmt::format("this rank was done {:.1f} s ago, but other processes do not end: one "
                            "of them hangs; what was saved is complete",
                            deadline_s_));
  }

  Runtime& runtime() override { return *runtime_; }
  Status poll() override { return runtime_->poll(); }
  Status finish() override { return runtime_->finish(); }
  Bytes peak_reserved() const override { return runtime_->peak_reserved(); }
  std::string name() const override { return name_; }
  std::string device() const override { return runtime_->device(); }
  GraphCounts graphs() const override { return runtime_->graphs(); }

 private:
  std::unique_ptr<ProcessRuntime> runtime_;
  const std::string name_;
  const double deadline_s_;  // also of the end, where processes wait for each other once more
};

class SimulatorCarrier final : public Carrier {
 public:
  static Result<std::unique_ptr<Carrier>> create(const CarrierOptions& options,
                                                 const CarrierNeeds& needs) {
    TESSERA_ASSIGN(auto cluster, sim::load_cluster(options.cluster, 1));
    auto carrier = std::make_unique<SimulatorCarrier>();
    carrier->cost_ = sim::make_cost_model(cluster);
    sim::LockstepOptions lockstep;
    lockstep.world_size = options.ranks;
    lockstep.ranks_per_node = cluster.gpus_per_node;
    lockstep.cost = carrier->cost_.get();
    lockstep.numerics = true;
    lockstep.aio = needs.aio;
    if (options.device == "cuda") lockstep.processor = Processor::gpu;  // as a run there would
    lockstep.sink = needs.sink;
    lockstep.recorded_ranks.resize(static_cast<std::size_t>(options.ranks));
    std::iota(lockstep.recorded_ranks.begin(), lockstep.recorded_ranks.end(), 0);
    TESSERA_ASSIGN(carrier->runtime_, sim::LockstepRuntime::create(lockstep));
    return std::unique_ptr<Carrier>(std::move(carrier));
  }

  Runtime& runtime() override { return *runtime_; }
  Status poll() override { return {}; }
  Status finish() override { return runtime_->finish(); }
  Bytes peak_reserved() const override { return runtime_->peak_reserved(); }
  std::string name() const override { return "simulator"; }

 private:
  std::unique_ptr<sim::CostModel> cost_;
  std::unique_ptr<sim::LockstepRuntime> runtime_;
};

Status with_hint(const Status& status) {
  if (status.code() != Code::not_supported) return status;
  return Status(Code::not_supported,
                fmt::format("several processes need MPI: {}; --runtime local trains on one",
                            status.message()));
}

// What processes on CPUs and on GPUs take alike.
template <class Options>
Options host_options(const CarrierOptions& options, const CarrierNeeds& needs) {
  Options host;
  host.clock = now;
  host.aio = needs.aio;
  host.sink = needs.sink;
  host.deadline = static_cast<Time>(options.deadline_s * 1e9);
  return host;
}

Result<std::unique_ptr<Carrier>> open_on_cpu(const CarrierOptions& options,
                                             const std::string& runtime,
                                             const CarrierNeeds& needs) {
  auto host = host_options<HostOptions>(options, needs);
  if (runtime == "mpi") {
    host.interrupted = [] { return asked_to_end != 0; };
    host.on_hang = [](const std::string& why) {
      fmt::print(stderr, "tessera: {}\n", why);
      std::_Exit(exit_failed);
    };
  }
  auto opened = runtime == "mpi" ? make_mpi_runtime(host) : make_local_runtime(host);
  if (!opened.ok()) return runtime == "mpi" ? with_hint(opened.status()) : opened.status();
  return std::unique_ptr<Carrier>(
      std::make_unique<HostBackend>(std::move(opened).value(), runtime, options.deadline_s));
}

Result<CudaOptions::Windows> windows_of(const CarrierOptions& options, const CarrierNeeds& needs) {
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

Result<std::unique_ptr<Carrier>> open_on_gpu(const CarrierOptions& options, const Launch& launch,
                                             const std::string& runtime,
                                             const CarrierNeeds& needs) {
  auto cuda = host_options<CudaOptions>(options, needs);
  cuda.interrupted = [] { return asked_to_end != 0; };
  cuda.share_gpu = options.share_gpu;
  cuda.profile_nccl = options.profile_nccl;
  cuda.deterministic = options.deterministic;
  cuda.tf32 = options.tf32;
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
  return std::unique_ptr<Carrier>(
      std::make_unique<HostBackend>(std::move(opened), "cuda", options.deadline_s));
}

}  // namespace

void add_carrier_options(CLI::App& command, CarrierOptions& o) {
  const char* group = "Run";
  command
      .add_option("--runtime", o.runtime,
                  "Who trains: this process (local), processes through mpi or, on GPUs, torchrun, "
                  "the simulator; auto: whoever launched it, else local")
      ->check(CLI::IsMember({"auto", "local", "mpi", "torchrun", "simulator"}))
      ->group(group);
  command.add_option("--device", o.device, "Where: cpu, cuda (one GPU a rank), auto: a GPU if any")
      ->check(CLI::IsMember({"cpu", "cuda", "auto"}))
      ->group(group);
  command
      .add_flag("--profile-nccl", o.profile_nccl,
                "cuda: the trace says how NCCL carries out collectives")
      ->group(group);
  command
      .add_option("--windows", o.windows,
                  "cuda: NCCL moves memory without copies of its own: on, off, auto (where it can)")
      ->check(CLI::IsMember({"on", "off", "auto"}))
      ->group(group);
  command
      .add_flag("--deterministic", o.deterministic,
                "The same bits from the same options and ranks: on GPUs NCCL adds in one order, "
                "elsewhere it is always so")
      ->group(group);
  command
      .add_flag("--tf32", o.tf32, "cuda: float32 matrices are multiplied in TF32, on tensor cores")
      ->group(group);
  command
      .add_flag("--cuda-graphs", o.cuda_graphs,
                "cuda: launch what modules repeat in every step as graphs")
      ->group(group);
  command.add_flag("--share-gpu", o.share_gpu, "cuda: ranks may share a GPU, slowly; for tests")
      ->group(group);
  command
      .add_option("--pinned-memory", o.pinned_gib,
                  "cuda: GiB of host memory, per rank, pinned at once; 0: as much as is needed")
      ->check(within(0, 1e6))
      ->group(group);
  command.add_option("--ranks", o.ranks, "Of the simulator")->check(within(1, 4096))->group(group);
  command.add_option("--cluster", o.cluster, "That the simulator takes its times from")
      ->group(group);
  command
      .add_option("--deadline", o.deadline_s,
                  "Seconds without anything happening after which a rank gives up")
      ->check(within(0.001, 1e7))
      ->group(group);
}

std::string runtime_of(const CarrierOptions& options, const Launch& launch) {
  if (options.runtime != "auto") return options.runtime;
  if (launch.by_torchrun) return "torchrun";
  return launch.by_launcher ? "mpi" : "local";
}

Rank ranks_of(const CarrierOptions& options, const Launch& launch) {
  const std::string runtime = runtime_of(options, launch);
  if (runtime == "simulator") return options.ranks;
  return runtime == "local" ? 1 : launch.ranks;
}

Result<std::unique_ptr<Carrier>> open_carrier(const CarrierOptions& options, const Launch& launch,
                                              const CarrierNeeds& needs) {
  const std::string runtime = runtime_of(options, launch);
  if (runtime == "simulator") {
    TESSERA_TRY(check_gpu_options(options, Computes::in_simulator, needs.traced));
    return SimulatorCarrier::create(options, needs);
  }
  if (runtime != "local") std::signal(SIGTERM, [](int) { asked_to_end = 1; });
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

}  // namespace tessera::cli
