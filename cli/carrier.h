// SPDX-License-Identifier: Apache-2.0
// Who carries out a training run: this process alone, processes through MPI, or the simulator.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <memory>
#include <string>

#include "tessera/offload.h"
#include "tessera/runtime.h"

namespace tessera::cli {

struct CarrierOptions {
  std::string runtime = "auto";
  Rank ranks = 1;  // of the simulator
  std::string cluster = "dgx-h100";
  double deadline_s = 300;
};

void add_carrier_options(CLI::App& command, CarrierOptions& options);

/// What launchers say in the environment: mpirun, srun and their like.
struct Launch {
  Rank ranks = 1;
  Rank rank = 0;
  Rank local_ranks = 1;  // on this machine
  bool by_launcher = false;
};
Launch read_launch();

class Carrier {
 public:
  virtual ~Carrier() = default;

  virtual Runtime& seam() = 0;
  virtual Status poll() = 0;
  virtual Status finish() = 0;
  virtual Bytes peak_reserved() const = 0;
  /// "local", "mpi", "simulator".
  virtual std::string name() const = 0;

  bool prints() { return seam().carried().contains(0); }
};

/// Which runtime `options` mean here: "local", "mpi" or "simulator".
std::string runtime_of(const CarrierOptions& options, const Launch& launch);
/// How many ranks that is, as far as it is known before.
Rank ranks_of(const CarrierOptions& options, const Launch& launch);

/// What a run needs besides.
struct CarrierNeeds {
  Aio aio;                    // how files on NVMe are read and written
  TraceSink* sink = nullptr;  // of rank 0; must outlive the carrier
};

/// Fails: not_supported (no MPI here), saying what is missing; what the runtimes fail with.
Result<std::unique_ptr<Carrier>> open_carrier(const CarrierOptions& options, const Launch& launch,
                                              const CarrierNeeds& needs);

}  // namespace tessera::cli
