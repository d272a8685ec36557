// SPDX-License-Identifier: Apache-2.0
// Who carries out a training run: this process alone, processes through MPI or NCCL, or the
// simulator; on CPUs or on GPUs.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <memory>
#include <string>

#include "cli/train/launch.h"
#include "tessera/host_runtime.h"
#include "tessera/offload.h"
#include "tessera/runtime.h"

namespace tessera::cli {

struct CarrierOptions {
  std::string runtime = "auto";
  std::string device = "cpu";
  bool share_gpu = false;
  bool profile_nccl = false;
  std::string windows = "off";
  bool deterministic = false;
  bool tf32 = false;
  bool cuda_graphs = false;
  double pinned_gib = 0;
  Rank ranks = 1;  // of the simulator
  std::string cluster = "dgx-h100";
  double deadline_s = 300;
};

void add_carrier_options(CLI::App& command, CarrierOptions& options);

class Carrier {
 public:
  virtual ~Carrier() = default;

  virtual Runtime& runtime() = 0;
  virtual Status poll() = 0;
  virtual Status finish() = 0;
  virtual Bytes peak_reserved() const = 0;
  /// "local", "mpi", "simulator", "cuda".
  virtual std::string name() const = 0;
  /// As ProcessRuntime::device.
  virtual std::string device() const { return {}; }
  /// As ProcessRuntime::graphs.
  virtual GraphCounts graphs() const { return {}; }

  bool prints() { return runtime().local_ranks().contains(0); }
};

/// Which runtime `options` mean here: "local", "mpi", "torchrun" or "simulator".
std::string runtime_of(const CarrierOptions& options, const Launch& launch);
/// How many ranks that is, as far as it is known before.
Rank ranks_of(const CarrierOptions& options, const Launch& launch);

/// What a run needs besides.
struct CarrierNeeds {
  Aio aio;                    // how files on NVMe are read and written
  TraceSink* sink = nullptr;  // of rank 0; must outlive the carrier
  bool owners = false;        // have memory that others lack: the scheme cannot use windows
  bool traced = false;        // on some rank
};

/// Fails: not_supported (no MPI or no GPU here), saying what is missing; invalid_argument (options
/// that exclude each other); what the runtimes fail with.
Result<std::unique_ptr<Carrier>> open_carrier(const CarrierOptions& options, const Launch& launch,
                                              const CarrierNeeds& needs);

}  // namespace tessera::cli
