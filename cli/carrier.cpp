// SPDX-License-Identifier: Apache-2.0
#include "cli/carrier.h"

#include <fmt/format.h>

#include <charconv>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <numeric>
#include <string_view>

#include "cli/checks.h"
#include "cli/command.h"
#include "tessera/host_runtime.h"
#include "tessera/sim/cluster.h"
#include "tessera/sim/lockstep_runtime.h"

namespace tessera::cli {
namespace {

// The first of these variables that holds a number.
Rank number_in(std::initializer_list<const char*> variables, Rank otherwise) {
  for (const char* variable : variables) {
    const char* const text = std::getenv(variable);
    if (text == nullptr) continue;
    const std::string_view word(text);
    Rank value = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
    if (error == std::errc{} && end == word.data() + word.size()) return value;
  }
  return otherwise;
}

// Launchers ask those who are left to end when a process died.
volatile std::sig_atomic_t asked_to_end = 0;

Time now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

class HostCarrier final : public Carrier {
 public:
  HostCarrier(std::unique_ptr<HostRuntime> runtime, std::string name)
      : runtime_(std::move(runtime)), name_(std::move(name)) {}

  Runtime& seam() override { return runtime_->seam(); }
  Status poll() override { return runtime_->poll(); }
  Status finish() override { return runtime_->finish(); }
  Bytes peak_reserved() const override { return runtime_->peak_reserved(); }
  std::string name() const override { return name_; }

 private:
  std::unique_ptr<HostRuntime> runtime_;
  std::string name_;
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
    lockstep.sink = needs.sink;
    lockstep.recorded_ranks.resize(static_cast<std::size_t>(options.ranks));
    std::iota(lockstep.recorded_ranks.begin(), lockstep.recorded_ranks.end(), 0);
    TESSERA_ASSIGN(carrier->runtime_, sim::LockstepRuntime::create(lockstep));
    return std::unique_ptr<Carrier>(std::move(carrier));
  }

  Runtime& seam() override { return runtime_->seam(); }
  Status poll() override { return {}; }
  Status finish() override { return runtime_->finish(); }
  Bytes peak_reserved() const override { return runtime_->peak_reserved(); }
  std::string name() const override { return "simulator"; }

 private:
  std::unique_ptr<sim::CostModel> cost_;
  std::unique_ptr<sim::LockstepRuntime> runtime_;
};

}  // namespace

void add_carrier_options(CLI::App& command, CarrierOptions& o) {
  const char* group = "Run";
  command
      .add_option("--runtime", o.runtime,
                  "Who trains: this process (local), processes through mpi, the simulator; auto: "
                  "mpi under mpirun and srun, else local")
      ->check(CLI::IsMember({"auto", "local", "mpi", "simulator"}))
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

Launch read_launch() {
  Launch launch;
  launch.ranks = number_in({"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_NTASKS"}, 1);
  launch.rank = number_in({"OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK", "SLURM_PROCID"}, 0);
  launch.local_ranks = number_in({"OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS"}, launch.ranks);
  launch.by_launcher = launch.ranks > 1 || std::getenv("OMPI_COMM_WORLD_SIZE") != nullptr ||
                       std::getenv("PMI_SIZE") != nullptr || std::getenv("PMIX_RANK") != nullptr;
  return launch;
}

std::string runtime_of(const CarrierOptions& options, const Launch& launch) {
  if (options.runtime != "auto") return options.runtime;
  return launch.by_launcher ? "mpi" : "local";
}

Rank ranks_of(const CarrierOptions& options, const Launch& launch) {
  const std::string runtime = runtime_of(options, launch);
  if (runtime == "simulator") return options.ranks;
  return runtime == "mpi" ? launch.ranks : 1;
}

Result<std::unique_ptr<Carrier>> open_carrier(const CarrierOptions& options, const Launch& launch,
                                              const CarrierNeeds& needs) {
  const std::string runtime = runtime_of(options, launch);
  if (runtime == "simulator") return SimulatorCarrier::create(options, needs);
  HostOptions host;
  host.clock = now;
  host.aio = needs.aio;
  host.sink = needs.sink;
  host.deadline = static_cast<Time>(options.deadline_s * 1e9);
  if (runtime == "mpi") {
    std::signal(SIGTERM, [](int) { asked_to_end = 1; });
    host.interrupted = [] { return asked_to_end != 0; };
    host.on_hang = [](const std::string& why) {
      fmt::print(stderr, "tessera: {}\n", why);
      std::_Exit(exit_failed);
    };
  }
  auto opened = runtime == "mpi" ? make_mpi_runtime(host) : make_local_runtime(host);
  if (!opened.ok() && runtime == "mpi" && opened.status().code() == Code::not_supported) {
    return Status(Code::not_supported,
                  fmt::format("several processes need MPI: {}; --runtime local trains on one",
                              opened.status().message()));
  }
  TESSERA_TRY(opened.status());
  return std::unique_ptr<Carrier>(
      std::make_unique<HostCarrier>(std::move(opened).value(), runtime));
}

}  // namespace tessera::cli
